"""One side of a comparison as a child process that answers requests."""

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, cast

from parity.trace import Channel

Progress = Callable[[int, int], None]
LOG_LINES = 15


class SideFailed(ValueError):
    """A side could not do what it was asked.

    Args:
      side: "tf", "torch" or "data".
      message: who, expected, got, what to do.
      traceback: of the side's own process, or "".
    """

    def __init__(self, side: str, message: str, traceback: str = "") -> None:
        super().__init__(f"{side} side: {message}")
        self.side = side
        self.traceback = traceback


class SideProcess:
    """Starts a side, passes it requests one after the other, and ends it with everything that it started.

    Args:
      side: "tf", "torch" or "data"; used in messages.
      command: the program and its arguments.
      environment: the child's whole environment.
      log: file that takes everything the child prints.
      silence: seconds without an answer or a sign of progress after which the child is ended.
    """

    def __init__(
        self, side: str, command: Sequence[str], environment: Mapping[str, str], log: Path, silence: float
    ) -> None:
        self.side = side
        self._log = log
        self._silence = silence
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix=side)
        self._closed = False
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as stderr:
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    env=dict(environment),
                    bufsize=0,
                    start_new_session=True,
                )
            except OSError as error:
                raise SideFailed(
                    side, f"expected to start {command[0]}, got: {error.strerror}. Name another interpreter."
                ) from error
        assert self._process.stdin and self._process.stdout
        self._channel = Channel(cast("BinaryIO", self._process.stdout), cast("BinaryIO", self._process.stdin))

    @property
    def pid(self) -> int:
        """The process id of the child."""
        return self._process.pid

    def ask(self, request: str, on_progress: Progress | None = None, **arguments: Any) -> "Future[Any]":
        """Sends a request; the future gives the side's answer, or raises `SideFailed`."""
        return self._worker.submit(self._ask, request, arguments, on_progress)

    def close(self) -> None:
        """Ends the child and every process of its session, and waits for them."""
        if self._closed:
            return
        self._closed = True
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=0.2)
        self._kill()
        self._process.wait()
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _ask(self, request: str, arguments: dict[str, Any], on_progress: Progress | None) -> Any:
        try:
            self._channel.send({"request": request, **arguments})
        except (BrokenPipeError, ValueError):
            return self._dead()
        deadline = time.monotonic() + self._silence
        with selectors.DefaultSelector() as selector:
            selector.register(self._channel_fd(), selectors.EVENT_READ)
            while True:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    self._kill()
                    raise SideFailed(
                        self.side,
                        f"expected a sign of life within {self._silence:.0f} s of {request!r}, got none; it was ended. "
                        f"{self._log_tail()}Allow more with --timeout.",
                    )
                reply = self._channel.receive()
                if reply is None:
                    return self._dead()
                if "result" in reply:
                    return reply["result"]
                if "error" in reply:
                    raise self._failure(reply["error"])
                deadline = time.monotonic() + self._silence
                if on_progress:
                    on_progress(*reply["progress"])

    def _channel_fd(self) -> int:
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def _failure(self, error: dict[str, Any]) -> SideFailed:
        where = f"rank {error['rank']}: " if "rank" in error else ""
        message = error["message"]
        if not error["plain"]:
            frames = [line for line in error["traceback"].splitlines() if line.strip().startswith("File ")]
            at = f" at {frames[-1].strip()}" if frames else ""
            message = f"{error['type']}: {message}{at}"
        return SideFailed(self.side, where + message, "" if error["plain"] else error["traceback"])

    def _dead(self) -> Any:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        status = self._process.returncode
        if status is not None and status < 0:
            how = f"was killed by {signal.Signals(-status).name}"
        else:
            how = f"ended with status {status}"
        raise SideFailed(
            self.side,
            f"expected an answer, but its process {how}. {self._log_tail()}"
            "Look for memory limits or whoever ends processes here, and run again.",
        )

    def _log_tail(self) -> str:
        lines = [line for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        return "It last printed:\n  " + "\n  ".join(lines[-LOG_LINES:]) + "\n" if lines else ""

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
