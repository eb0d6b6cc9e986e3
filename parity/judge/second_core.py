"""Does work on another core, where one is idle: loops over arrays, which release the interpreter's lock."""

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue


class Shared:
    """Work that another thread does, or leaves where it has not begun by the time that it is waited for.

    Two locks, and no future of a pool, whose start costs a tenth of the time that a large tensor is judged in.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        self._work, self._process = work, os.getpid()
        self._begun, self._pending = threading.Lock(), threading.Lock()
        self._error: BaseException | None = None
        self._pending.acquire()

    def is_pending(self) -> bool:
        """Returns whether the thread has still to begin or to end."""
        return self._pending.locked()

    def do(self) -> None:
        """Does the work, in that thread, unless whoever waited has taken it back."""
        if self._begun.acquire(False):
            try:
                self._work()
            except BaseException as error:
                self._error = error
            finally:
                self._pending.release()

    def wait(self) -> None:
        """Returns once the thread has ended; where it has not begun, at once: others may have its core.

        Raises:
          BaseException: what the work has raised there.
        """
        if self._begun.acquire(False):
            self._pending.release()
        elif self._process == os.getpid():  # a process that was forked meanwhile has no such thread
            with self._pending:
                pass
        if self._error is not None:
            raise self._error


class SecondCore:
    """A thread that does what it is given one after another, made when it is first asked for."""

    def __init__(self) -> None:
        self._process = 0
        self._queue: SimpleQueue[Shared] | None = None
        self._last: Shared | None = None

    def share(self, work: Callable[[], object]) -> Shared | None:
        """Begins work; returns what waits for its end, or None where there is no other core, or it is busy."""
        if self._process != os.getpid():  # a process that was forked has the queue and not the thread
            self._process, self._last = os.getpid(), None
            self._queue = _served() if _cores() > 1 else None
        if self._queue is None or (self._last is not None and self._last.is_pending()):
            return None
        self._last = Shared(work)
        self._queue.put(self._last)
        return self._last


def _served() -> SimpleQueue[Shared]:
    queue: SimpleQueue[Shared] = SimpleQueue()

    def serve() -> None:
        while True:
            queue.get().do()

    threading.Thread(target=serve, daemon=True).start()
    return queue


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


SECOND_CORE = SecondCore()
