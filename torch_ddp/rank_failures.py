"""Finds out which of several ranks failed first: where one fails, the others soon do too, for lack of it."""

import contextlib
import os
import signal
import threading
import time
import traceback
from collections.abc import Iterator
from multiprocessing import connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch.multiprocessing.spawn import ProcessException

SUFFIX = ".failure"
# By which schedulers and users ask for the machine: Slurm's --signal=USR1@90 sends the second before the first. Windows has
# the first alone.
PREEMPTIONS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGUSR1") if hasattr(signal, name))
# 128 + the signal's number (143, 138), as shells say it of a process that a signal ended: schedulers take such a code for
# a preemption and not for a failure.
PREEMPTED = frozenset(128 + number for number in PREEMPTIONS)
LOOK_SECONDS = 1.0  # between two looks at whether ranks are stopped
SECONDS_MORE = 5.0  # than the others wait, until a rank that is stopped is given up
SECONDS_TO_END = 30.0  # from SIGTERM to SIGKILL, as torch.multiprocessing has it


class Failure(NamedTuple):
    """How one rank failed.

    Fields:
      at: nanoseconds on the clock that all processes of a machine share.
      rank: which one.
      text: its traceback.
    """

    at: int
    rank: int
    text: str


@contextlib.contextmanager
def recorded(folder: Path, rank: int) -> Iterator[None]:
    """Leaves a record in `folder` if the block raises and there is none yet, and lets the exception through."""
    try:
        yield
    except (Exception, SystemExit) as error:
        record = folder / f"{rank}{SUFFIX}"
        # The first failure of a rank is the cause; leaving the group may raise once more.
        if record.exists() or (isinstance(error, SystemExit) and error.code in (None, 0, *PREEMPTED)):
            raise
        # Written under another name and renamed: the parent never reads half a record.
        unfinished = record.with_suffix(".unfinished")
        # On a full disk there is no record: what is raised is the error itself, and not that.
        with contextlib.suppress(OSError):
            unfinished.write_text(f"{time.monotonic_ns()}\n{traceback.format_exc()}", encoding="utf-8")
            unfinished.rename(record)
        raise


def failures(folder: Path) -> list[Failure]:
    """Returns what was recorded in `folder`, the earliest first."""
    found = []
    for record in folder.glob(f"*{SUFFIX}"):
        at, _, text = record.read_text(encoding="utf-8").partition("\n")
        found.append(Failure(int(at), int(record.stem), text))
    # By time first: the earliest is the cause.
    return sorted(found)


def join_ranks(context: Any, first: int, folder: Path, timeout: float) -> None:
    """Waits for started ranks; where one fails, ends the others and raises what the first one failed with.

    SIGTERM and SIGUSR1 to this process go on to the ranks within.

    Args:
      context: what ``torch.multiprocessing.start_processes(join=False)`` returned.
      first: the rank of its process 0.
      folder: where the ranks record their failures.
      timeout: seconds that a rank waits for the others.

    Raises:
      torch.multiprocessing.ProcessRaisedException: with the traceback of the rank that failed first.
      torch.multiprocessing.ProcessExitedException: a rank ended without one.
      SystemExit: with code 143 or 138 where all ranks ended with it, as `Preemption.end` has them, or by the signal itself,
        before they could note it.
    """
    processes = context.processes
    with _handed_on(processes) as handed_on:
        try:
            codes = _codes_at_first_failure(processes, first, 2 * timeout + SECONDS_MORE)
            if _preemption(codes, handed_on):
                # Nobody failed: rank 0 may be at its checkpoint.
                for process in processes:
                    process.join()
                codes = {index: process.exitcode for index, process in enumerate(processes) if process.exitcode}
        finally:
            _end(processes)
            # torch's own records, which nobody reads: what is raised here is on record in `folder`.
            for name in filter(None, getattr(context, "error_files", ())):
                with contextlib.suppress(OSError):
                    os.unlink(name)
    if code := _preemption(codes, handed_on):
        raise SystemExit(code)
    if codes:
        raise _cause(processes, codes, first, failures(folder))


def _codes_at_first_failure(processes: list[Any], first: int, patience: float) -> dict[int, int]:
    # Read before any is ended from here, or a rank that hangs would look like one that was killed and hide the cause.
    waiting = {process.sentinel: process for process in processes}
    stopped: dict[int, float] = {}  # since when, by index
    while waiting:
        for sentinel in connection.wait(list(waiting), LOOK_SECONDS):
            waiting.pop(sentinel).join()
        codes = {index: process.exitcode for index, process in enumerate(processes) if process.exitcode}
        if codes:
            return codes
        _raise_if_stopped(processes, stopped, first, patience)
    return {}


def _raise_if_stopped(processes: list[Any], stopped: dict[int, float], first: int, patience: float) -> None:
    from torch.multiprocessing.spawn import ProcessExitedException

    # Mostly the others time out, and say where. But while gloo connects its pairs, a peer that is stopped is waited for
    # without end (torch 2.13: of 17 ranks stopped within half a second of their start, one).
    for index, process in enumerate(processes):
        if not is_stopped(process.pid):
            stopped.pop(index, None)
        elif time.monotonic() - stopped.setdefault(index, time.monotonic()) > patience:
            text = (
                f"rank {first + index} is stopped since {patience:g} seconds, as by SIGSTOP, and the others wait for it"
            )
            raise ProcessExitedException(text, first + index, process.pid, -signal.SIGSTOP, "SIGSTOP")


def is_stopped(pid: int) -> bool:
    """Returns whether a process was stopped by a signal and has not gone on; False where there is no /proc to say it."""
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0] == "T"
        )
    except (OSError, IndexError):
        return False


def _preemption(codes: dict[int, int], handed_on: list[int]) -> int | None:
    # The code of ranks that ended because they were to, None where one failed. A rank that still imports dies of the signal
    # that it was handed, and its death makes others fail: then all that died by themselves died of it.
    ended = set(codes.values())
    if ended and ended <= PREEMPTED:
        return max(ended)
    return 128 + handed_on[0] if ended & {-number for number in handed_on} else None


@contextlib.contextmanager
def _handed_on(processes: list[Any]) -> Iterator[list[int]]:
    # Python sets handlers in the main thread alone.
    signals: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return

    def hand_on(number: int, frame: Any) -> None:
        signals.append(number)
        for process in processes:
            if process.is_alive():
                os.kill(process.pid, number)

    before = {number: signal.signal(number, hand_on) for number in PREEMPTIONS}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(processes: list[Any]) -> None:
    alive = [process for process in processes if process.is_alive()]
    for process in alive:
        process.terminate()
        # A stopped process takes no signal but SIGKILL until it goes on.
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)
    deadline = time.monotonic() + SECONDS_TO_END
    for process in alive:
        process.join(max(0.0, deadline - time.monotonic()))
        if process.is_alive():
            process.kill()
        process.join()


def _cause(processes: list[Any], codes: dict[int, int], first: int, recorded: list[Failure]) -> "ProcessException":
    from torch.multiprocessing.spawn import ProcessRaisedException

    known = {failure.rank for failure in recorded}
    for index, code in codes.items():
        # Killed from outside, or by its own crash: it left no record, and the others failed for lack of it.
        if first + index not in known and code not in PREEMPTED:
            return _exited(first + index, processes[index], code)
    failed = recorded[0]
    text = f"\n\n-- Rank {failed.rank} failed first:\n{failed.text}"
    return ProcessRaisedException(text, failed.rank, processes[failed.rank - first].pid)


def _exited(rank: int, process: Any, code: int) -> "ProcessException":
    from torch.multiprocessing.spawn import ProcessExitedException

    if code < 0:
        name = signal.Signals(-code).name
        return ProcessExitedException(f"rank {rank} was killed by {name}", rank, process.pid, code, name)
    return ProcessExitedException(f"rank {rank} ended with exit code {code}", rank, process.pid, code)
