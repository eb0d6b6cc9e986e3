"""Starts a training program with an environment in which it is observed, and ends every process of it."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from parity.worker.bootstrap import OurPackages
from parity.worker.program_request import REQUEST_VARIABLE, ProgramRequest, write_request
from parity.worker.reaper import ended_when_killed, removed_when_killed

INJECT = os.path.join(OurPackages.root, "torch_ddp", "record", "inject")
PROGRAM_ENDS_SECONDS = 10.0  # in which a program may end by itself once it is told to
OUTLIVES_SECONDS = 5.0  # in which processes that outlive the command may end by themselves


class Program:
    """A training program that runs under observation; closing ends every process of it.

    Args:
      command: as it would be typed.
      request: what is asked of it.
      folder: made if missing; holds the request, and is removed where this process is killed.
      environment: of the command, by default this process's.
      streams: `stdin`, `stdout`, `stderr` of the command, as `subprocess.Popen` takes them.

    Attributes:
      request: as given.
    """

    def __init__(
        self,
        command: Sequence[str],
        request: ProgramRequest,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        **streams: Any,
    ) -> None:
        self.request = request
        folder.mkdir(parents=True, exist_ok=True)
        os.makedirs(request.ranks, exist_ok=True)
        self._file = str((folder / "request.json").resolve())
        write_request(self._file, request)
        own = dict(os.environ if environment is None else environment)
        # In the program's environment alone, and inherited by all that it starts: by this its processes are known,
        # whatever session or parent they have by then.
        own[REQUEST_VARIABLE] = self._file
        own["PYTHONPATH"] = os.pathsep.join([INJECT, *filter(None, [own.get("PYTHONPATH", "")])])
        with contextlib.ExitStack() as stack:
            stack.enter_context(removed_when_killed(str(folder)))
            stack.enter_context(ended_when_killed(REQUEST_VARIABLE, self._file))
            self._process = subprocess.Popen(list(command), env=own, **streams)
            self._reaped = stack.pop_all()

    def poll(self) -> int | None:
        """Returns the command's exit code, as a shell would say it, or None while it runs."""
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def processes(self) -> list[int]:
        """Returns the ids of the program's processes that are alive, by their environment."""
        mark = f"{REQUEST_VARIABLE}={self._file}".encode()
        return [pid for pid in _all_processes() if mark in _environment_of(pid)]

    def close(self) -> None:
        """Ends what is still alive: politely first, and then for good."""
        if self._process.poll() is None:
            # The command alone: a launcher that is told to end ends its ranks.
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(PROGRAM_ENDS_SECONDS)
        end = time.monotonic() + OUTLIVES_SECONDS
        while self.processes() and time.monotonic() < end:
            time.sleep(0.05)
        # Until none is there: one may fork between the look and the signal.
        while left := self.processes():
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
            self._process.poll()
        self._process.wait()
        self._reaped.close()


def _all_processes() -> Iterator[int]:
    # None where there is no /proc: launchers end their ranks by themselves.
    with contextlib.suppress(FileNotFoundError):
        yield from (int(name) for name in os.listdir("/proc") if name.isdigit())


def _environment_of(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []
