"""Kills the process in argv[1] when it does not say in time, in lines on stdin, that what it does is over.

`{"name": ..., "limit": seconds, "grace": seconds}` begins something, `{}` ends it. Imports the standard library alone.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time

LOOK_SECONDS = 1.0
DUMP_SECONDS = 1.0


def watch(pid):
    """Returns when the process has closed its end of the pipe, has gone, or was killed."""
    received, expected, deadline = b"", {}, None
    while os.getppid() == pid:
        left = LOOK_SECONDS if deadline is None else min(LOOK_SECONDS, max(0.0, deadline - time.monotonic()))
        if select.select([0], [], [], left)[0]:
            read = os.read(0, 65536)
            if not read:
                return
            *lines, received = (received + read).split(b"\n")
            if lines:
                expected = json.loads(lines[-1])
                deadline = time.monotonic() + expected["limit"] + expected["grace"] if expected else None
        elif deadline is not None and time.monotonic() >= deadline:
            end(pid, expected)
            return


def end(pid, expected):
    """Says which test it is, has the process print where its threads are, and kills it with its descendants."""
    say(
        f"\nwatchdog: {expected['name']} is stuck: not over {expected['grace']:g} s after its limit of "
        f"{expected['limit']:g} s. It is where this says, and its process is killed:\n"
    )
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGUSR1)
        time.sleep(DUMP_SECONDS)
    for each in [*descendants(pid), pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


def descendants(pid):
    """Returns the processes that a process has started, and those that they have, but not this one; none without `ps`."""
    try:
        listed = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    pairs = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
    found = [pid]
    for parent in found:
        found += [child for child, of in pairs if of == parent and child != os.getpid()]
    return found[1:]


def say(text):
    os.write(2, text.encode())


if __name__ == "__main__":
    watch(int(sys.argv[1]))
