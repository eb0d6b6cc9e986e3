"""Runs something first on every thread that Python starts from now on."""

import threading
from collections.abc import Callable
from typing import Any


class ThreadStarts:
    """Wraps `threading.Thread.start` between `watch` and `release`.

    Torch keeps its stack of function modes per thread and a new thread begins with an empty one. Threads of a data
    loader, of DataParallel and of executors all pass through `Thread.start`; threads that C++ starts for a backward
    pass inherit the stack of the thread that called `backward`.
    """

    def __init__(self, starting: Callable[[], bool], first: Callable[[], None]) -> None:
        """Prepares the wrapper.

        Args:
            starting: asked on the starting thread, whether the new one is to be wrapped.
            first: called on the new thread before its `run`.
        """
        self._starting = starting
        self._first = first
        self._original: Callable[..., None] | None = None
        self._wrapper: Callable[..., None] | None = None

    def watch(self) -> None:
        """Wraps `Thread.start`."""
        original = threading.Thread.start
        starts = self

        def start(thread: threading.Thread, *args: Any, **kwargs: Any) -> None:
            if starts._starting():
                starts._wrap_run(thread)
            original(thread, *args, **kwargs)

        self._original, self._wrapper = original, start
        threading.Thread.start = start  # type: ignore[method-assign,assignment]

    def release(self) -> None:
        """Puts the former `Thread.start` back, unless somebody wrapped ours since: then ours stays and does nothing."""
        if self._original is not None and threading.Thread.start is self._wrapper:
            threading.Thread.start = self._original  # type: ignore[method-assign]
        self._starting = _never

    def _wrap_run(self, thread: threading.Thread) -> None:
        # The bound method, of the class or of the instance: whatever the thread would have run.
        run = thread.run
        own = thread.__dict__.get("run")

        def run_after_first() -> None:
            # The thread is as it was before its own `run` begins.
            if own is None:
                del thread.__dict__["run"]
            else:
                thread.__dict__["run"] = own
            self._first()
            run()

        thread.__dict__["run"] = run_after_first


def _never() -> bool:
    return False
