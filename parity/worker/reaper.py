"""Removes temporary folders and ends processes where their owner is killed, and cannot itself (Python 3.7 and up).

A folder for temporary files is removed by whoever made it, as long as that ends by itself. For kill -9, and for a memory
limit that comes to the same, another process looks on: it holds the other end of a pipe, which closes with its owner.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from typing import Any, ContextManager, Iterator, Optional

# Reads what there is to be removed; acts where its stdin ends without a word that all is well.
WATCHING = """
import json, os, shutil, signal, sys, time

def marked(mark):
    for pid in [int(each) for each in os.listdir("/proc") if each.isdigit() and int(each) != os.getpid()]:
        try:
            with open("/proc/%d/environ" % pid, "rb") as file:
                if mark in file.read().split(b"\\0"):
                    yield pid
        except OSError:
            pass

for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
folders, marks = [], []
known = {"folder": folders, "mark": marks}
for line in sys.stdin:
    try:
        kind, value, held = json.loads(line)
    except ValueError:
        break
    if kind == "ended":
        sys.exit()
    if held:
        known[kind].append(value)
    elif value in known[kind]:
        known[kind].remove(value)
end = time.monotonic() + SECONDS
while True:
    # Processes that write there end with their parent too, but maybe a moment later.
    left = [pid for mark in marks for pid in (marked(mark.encode()) if os.path.isdir("/proc") else ())]
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    again = left or any(map(os.path.exists, folders))
    if not again or time.monotonic() > end:
        break
    time.sleep(0.1)
"""
SECONDS = 4.0  # for which it tries


class _Reaper(object):
    """The other process of this one, from its first folder on."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._process: Optional["subprocess.Popen[bytes]"] = None
        self._owner = 0
        self._held = 0

    def tell(self, kind: str, value: str, held: bool) -> None:
        with self._lock:
            # What is forked has its parent's folders in its memory, and none of its own: it has its parent's left alone.
            if self._owner != os.getpid():
                if not held:
                    return
                self._start()
            self._held += 1 if held else -1
            self._send([kind, value, held])
            if not self._held:
                self._end()

    def _start(self) -> None:
        self._owner, self._held = os.getpid(), 0
        # -S: no site, hence no sitecustomize of anybody's. A session of its own: what ends this process's group must not end
        # it. Its streams are nobody's: a pipe that somebody reads to its end would stay open.
        command = [sys.executable, "-S", "-c", WATCHING.replace("SECONDS", repr(SECONDS))]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd=os.sep,
            )
        except OSError:  # no process, no handle is to be had: what follows fails by itself, and says so
            self._process = None

    def _send(self, message: Any) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(json.dumps(message).encode("ascii") + b"\n")
                self._process.stdin.flush()

    def _end(self) -> None:
        process, self._process, self._owner = self._process, None, 0
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.write(b'["ended", "", true]\n')
                process.stdin.close()
            process.wait()


_reaper = _Reaper()


def removed_when_killed(folder: str) -> ContextManager[None]:
    """Has a folder removed if this process is killed within the block."""
    return _reported("folder", os.path.abspath(folder))


def ended_when_killed(name: str, value: str) -> ContextManager[None]:
    """Has the processes that have a variable in their environment killed if this process is killed within the block."""
    return _reported("mark", "%s=%s" % (name, value))


@contextlib.contextmanager
def _reported(kind: str, value: str) -> Iterator[None]:
    _reaper.tell(kind, value, True)
    try:
        yield
    finally:
        _reaper.tell(kind, value, False)


@contextlib.contextmanager
def temporary_folder(prefix: Optional[str] = None) -> Iterator[str]:
    """Gives a folder for temporary files that is gone behind the block, also where this process is killed within."""
    folder = tempfile.mkdtemp(prefix=prefix)
    with removed_when_killed(folder):
        try:
            yield folder
        finally:
            remove_folder(folder)


def remove_folder(folder: str) -> None:
    """Removes a folder with all that is in it, as far as that can be done, also by the last handle that is free."""
    shutil.rmtree(folder, ignore_errors=True)  # holds a handle for each level
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if os.path.isdir(path) and not os.path.islink(path):
                remove_folder(path)
            else:
                os.unlink(path)
        os.rmdir(folder)
