"""Finds out which of several ranks failed first: where one fails, the others soon do too, for lack of it."""

import contextlib
import signal
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch.multiprocessing.spawn import ProcessException

SUFFIX = ".failure"


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
        if record.exists() or (isinstance(error, SystemExit) and not error.code):
            raise
        # Written under another name and renamed: the parent never reads half a record.
        unfinished = record.with_suffix(".unfinished")
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


def join_ranks(context: Any, first: int, folder: Path) -> None:
    """Waits for started ranks; where one fails, ends the others and raises what the first one failed with.

    Args:
      context: what ``torch.multiprocessing.start_processes(join=False)`` returned.
      first: the rank of its process 0.
      folder: where the ranks record their failures.

    Raises:
      torch.multiprocessing.ProcessRaisedException: with the traceback of the rank that failed first.
      torch.multiprocessing.ProcessExitedException: a rank ended without one.
    """
    from torch.multiprocessing.spawn import ProcessException

    try:
        while not context.join():
            pass
    except ProcessException as error:
        raise _cause(context, first, failures(folder), error) from None
    finally:
        for process in context.processes:
            if process.is_alive():
                process.kill()
            process.join()


def _cause(context: Any, first: int, recorded: list[Failure], error: "ProcessException") -> "ProcessException":
    from torch.multiprocessing.spawn import ProcessRaisedException

    known = {failure.rank for failure in recorded}
    for index, process in enumerate(context.processes):
        # SIGTERM is how the others were ended.
        # Killed from outside, or by its own crash: it left no record, and the others failed for lack of it.
        if process.exitcode not in (0, -signal.SIGTERM) and first + index not in known:
            return _exited(first + index, process)
    if not recorded:
        return error
    text = f"\n\n-- Rank {recorded[0].rank} failed first:\n{recorded[0].text}"
    return ProcessRaisedException(text, recorded[0].rank, error.error_pid)


def _exited(rank: int, process: Any) -> "ProcessException":
    from torch.multiprocessing.spawn import ProcessExitedException

    if process.exitcode < 0:
        name = signal.Signals(-process.exitcode).name
        return ProcessExitedException(f"rank {rank} was killed by {name}", rank, process.pid, process.exitcode, name)
    text = f"rank {rank} ended with exit code {process.exitcode}"
    return ProcessExitedException(text, rank, process.pid, process.exitcode)
