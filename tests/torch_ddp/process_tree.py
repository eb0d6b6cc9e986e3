"""Finds and ends what a started process has started in turn: torchrun's ranks outlive a torchrun that is killed."""

import contextlib
import os
import signal
import subprocess


def children(pid: int) -> list[int]:
    """Returns the numbers of a process's children, oldest first."""
    return sorted(child for child, parent in _pairs() if parent == pid)


def program_of(process: subprocess.Popen) -> int:
    """Returns the number of the program that a process is, or stands for as the client of a fork (see `support.forks`)."""
    with open(f"/proc/{process.pid}/comm") as name:
        start, _, number = name.read().strip().partition("-")
    return int(number) if start == "fork" and number.isdigit() else process.pid


def end_tree(process: subprocess.Popen) -> None:
    """Kills a process with all its descendants, and waits for it; does nothing where it has ended."""
    if process.poll() is None:
        pairs, found = _pairs(), [process.pid]
        for pid in found:
            found += [child for child, parent in pairs if parent == pid]
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    process.wait()


def _pairs() -> list[tuple[int, int]]:
    # What stands for a fork (see `support.forks`) is named after it, and has its children.
    command = ["ps", "-A", "-o", "pid=,ppid=,comm="]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
    stands_for = {int(name[5:]): int(pid) for pid, _, name in rows if name.startswith("fork-") and name[5:].isdigit()}
    return [(int(pid), stands_for.get(int(parent), int(parent))) for pid, parent, _ in rows]
