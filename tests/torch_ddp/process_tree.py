"""Finds and ends what a started process has started in turn: torchrun's ranks outlive a torchrun that is killed."""

import contextlib
import os
import signal
import subprocess


def children(pid: int) -> list[int]:
    """Returns the numbers of a process's children, oldest first."""
    return sorted(child for child, parent in _pairs() if parent == pid)


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
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, timeout=60, check=True)
    return [(int(pid), int(parent)) for pid, parent in map(str.split, listed.stdout.splitlines())]
