"""Whose a trace is that is being written: one process's, and no other's.

A program that is recorded may fork, and whose child leaves first runs the same handlers on its way out; a second recording
may be sent to the same folder. Neither may write, nor say that the trace is complete.
"""

import contextlib
import os
import weakref
from typing import Any, Dict, List, Optional

from parity.trace.errors import TraceError
from parity.trace.safetensors import Path

try:
    import fcntl
except ImportError:  # Windows; a second recording into one folder is not noticed there
    fcntl = None  # type: ignore[assignment]


HANDED_ON_VARIABLE = "PARITY_TRACE_HANDED_ON"  # names a folder that whoever started this process holds for it


class Ownership(object):
    """The lock on a trace's folder; held until `release`, or until the process is gone, however it ends.

    Within one process it may be taken several times: a recorder holds the folder from its start, and the writer that it
    makes later holds it as well. It is free once all of them are released or gone.

    Args:
      directory: made if missing; removed by `release` where it was made and is empty still.

    Raises:
      TraceError: another process holds it, or it is no folder and cannot be made one.
    """

    def __init__(self, directory: Path) -> None:
        self._pid = os.getpid()
        self._directory = os.path.realpath(str(directory))
        self._made = not os.path.isdir(self._directory)
        self._lock: Optional[_Lock] = _lock_of(self._directory)

    @property
    def held(self) -> bool:
        """Whether this is the process that took it, and not one that was forked from it."""
        return os.getpid() == self._pid

    def handed_on(self) -> Dict[str, str]:
        """Returns variables for a child's environment: it writes there as this process could, which holds on until it ends.

        Were the folder given up for the child to take, another process could come between.
        """
        return {HANDED_ON_VARIABLE: self._directory}

    def release(self) -> None:
        """Gives the folder up."""
        if self._made and self.held and self._lock is not None:
            with contextlib.suppress(OSError):  # it is not empty
                os.rmdir(self._directory)
        self._lock = None

    def __enter__(self) -> "Ownership":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.release()


def lock_folder(directory: Path) -> Optional[int]:
    """Returns the descriptor of a folder that this process has alone from now on, until it is closed.

    The lock is the kernel's and on the folder itself: it goes with the process, and leaves no file.

    Returns:
      None where folders cannot be locked, as in some network file systems.

    Raises:
      BlockingIOError: another descriptor has it.
    """
    if fcntl is None:
        return None
    descriptor = os.open(str(directory), os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor
    except BlockingIOError:
        os.close(descriptor)
        raise
    except OSError:
        os.close(descriptor)
        return None


class _Lock(object):
    """One descriptor, shared by all in this process that hold the folder."""

    def __init__(self, directory: str) -> None:
        self._descriptor: Optional[int] = None
        if directory != _handed_on:
            self._descriptor = lock_folder(directory)

    def is_of(self, directory: str) -> bool:
        """Whether this is still the folder of that name, and not one that was removed."""
        try:
            return self._descriptor is None or os.path.samestat(os.fstat(self._descriptor), os.stat(directory))
        except FileNotFoundError:
            return False

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None

    def __del__(self) -> None:
        self.close()


# Taken out of the environment at once: what this process starts in turn holds nothing by it.
_handed_on = os.environ.pop(HANDED_ON_VARIABLE, None)
_locks: "weakref.WeakValueDictionary[str, _Lock]" = weakref.WeakValueDictionary()


def _lock_of(directory: str) -> _Lock:
    lock = _locks.get(directory)
    # Anew until it holds what has the name: another process may remove the empty folder that it made.
    while lock is None or not lock.is_of(directory):
        try:
            os.makedirs(directory, exist_ok=True)
            lock = _Lock(directory)
        except BlockingIOError:
            raise TraceError(
                f"trace: expected {directory} for one recording alone, got another process that writes to it. "
                "Name another folder, or wait until that has ended."
            ) from None
        except FileNotFoundError:
            continue
        except OSError as error:
            raise TraceError(
                f"trace: expected a folder that can be written at {directory}, got: {error.strerror}. Name another."
            ) from None
    _locks[directory] = lock
    return lock


def _let_go() -> None:
    # A lock belongs to every copy of its descriptor: a child that lives on would hold what its parent has given up.
    locks: List[_Lock] = list(_locks.values())
    _locks.clear()
    for lock in locks:
        lock.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
