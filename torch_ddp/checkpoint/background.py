"""Writes in a thread of its own while the training goes on, one file at a time."""

import threading
from collections.abc import Callable
from pathlib import Path


class BackgroundWriter:
    """Runs what writes a file beside the training; what it raised is raised by the next `wait`."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._path: Path | None = None

    def start(self, write: Callable[[], Path]) -> None:
        """Waits for the file before, and begins to write another.

        Args:
          write: writes a file and returns it; what it reads must not change meanwhile.

        Raises:
          BaseException: what the write before raised.
        """
        self.wait()
        # Not a daemon: a process that ends waits for it, and with that leaves no half file for a whole one.
        self._thread = threading.Thread(target=self._run, args=(write,), name="checkpoint")
        self._thread.start()

    def wait(self) -> Path | None:
        """Returns the file that was written last, once it is whole; None where there was none.

        Raises:
          BaseException: what writing it raised, once.
        """
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._path

    def _run(self, write: Callable[[], Path]) -> None:
        try:
            self._path = write()
        # All of it: whoever waits is to see it.
        except BaseException as error:
            self._error = error
