"""Passes on what a script prints on stderr, and keeps TensorFlow's own messages in a file instead."""

import contextlib
import os
import re
import selectors
import sys
import threading
from pathlib import Path
from typing import IO

ANYTHING, SOURCE = re.compile(rb""), re.compile(rb"  \S")
TO_A_BLANK_LINE = re.compile(rb".*\S")  # holds for every line of a paragraph
# How the lines begin that TensorFlow, its C++ libraries and warnings about its own source print, and what may follow one.
OWN: tuple[tuple[re.Pattern[bytes], re.Pattern[bytes] | None], ...] = (
    (re.compile(rb"WARNING: All log messages before absl"), None),
    (re.compile(rb".*: W .*Failed to place the graph without changing the devices"), TO_A_BLANK_LINE),
    (re.compile(rb"Colocation members, user-requested devices"), TO_A_BLANK_LINE),
    (re.compile(rb"To enable the following instructions:"), None),
    # absl's and glog's: a letter for severity, month and day.
    (re.compile(rb"[IWEF]\d{4} "), None),
    (re.compile(rb"[IWEF]0000 "), None),
    (re.compile(rb"\d{4}-\d\d-\d\d .*: [IWEF] "), None),
    # Deprecations: 1.15 prints one for most calls of older code, with what to write instead in the lines after it.
    (re.compile(rb"WARNING:tensorflow:From "), None),
    (re.compile(rb"Instructions for updating:"), ANYTHING),
    (re.compile(rb".*site-packages/(tensorflow|tensorboard|keras|tf_keras)[^ ]*:\d+: \w*Warning"), SOURCE),
)
PARTIAL_SECONDS = 0.2  # after which a line without an end, such as a progress bar's, is passed on as it is


class FrameworkLog:
    """Reads a pipe in a thread, until it ends.

    Args:
      pipe: the child's stderr.
      path: the file that TensorFlow's messages are kept in, made with the first of them; its folder is made too.
    """

    def __init__(self, pipe: IO[bytes], path: Path) -> None:
        self.lines = 0
        self._pipe, self._path = pipe, path
        self._follows: re.Pattern[bytes] | None = None
        # A daemon: a grandchild that holds the pipe open must not keep this process alive.
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def close(self, seconds: float = 5.0) -> None:
        """Waits for the pipe's end, as long as a grandchild may hold it open."""
        self._thread.join(seconds)

    def _read(self) -> None:
        held, midway = b"", False
        with selectors.DefaultSelector() as ready:
            ready.register(self._pipe, selectors.EVENT_READ)
            while True:
                # A question or a progress bar has no end of line: waiting for one would hide it for good.
                if not ready.select(PARTIAL_SECONDS if held else None):
                    self._pass(held)
                    held, midway = b"", True
                    continue
                # What is there now, up to 64 KiB: `read` of a buffered pipe would wait for all of it.
                chunk = os.read(self._pipe.fileno(), 65536)
                lines = (held + chunk).splitlines(keepends=True)
                # What has no end yet is held; at the end of the pipe nothing more can follow it.
                held = lines.pop() if chunk and lines and not lines[-1].endswith((b"\n", b"\r")) else b""
                for line in lines:
                    # The rest of a line whose beginning was passed on goes the same way, whatever it looks like.
                    if midway or not self._is_own(line):
                        self._pass(line)
                    else:
                        self._keep(line)
                    midway = False
                if not chunk:
                    return

    def _is_own(self, line: bytes) -> bool:
        for start, follows in OWN:
            if start.match(line):
                self._follows = follows
                return True
        expected = self._follows
        if expected is not TO_A_BLANK_LINE or not expected.match(line):
            self._follows = None
        return expected is not None and (expected is TO_A_BLANK_LINE or expected.match(line) is not None)

    def _keep(self, line: bytes) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Opened anew for each line: messages are few, and none is lost where the process is killed.
            with self._path.open("ab") as file:
                file.write(line)
        except OSError:
            # A full disk: nothing of it is lost, and the pipe is read on, or the script would wait for ever.
            self._pass(line)
        else:
            self.lines += 1

    def _pass(self, text: bytes) -> None:
        # Where nobody takes it the pipe is read on all the same, or the script would wait for ever to write.
        with contextlib.suppress(OSError):
            sys.stderr.buffer.write(text)
            # At once: a progress bar or a question has to appear when the script writes it.
            sys.stderr.buffer.flush()
