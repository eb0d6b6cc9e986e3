"""Records a training program of PyTorch: runs its command, follows its ranks, leaves one trace."""

import contextlib
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from parity.record.launch import Program
from parity.record.merge import merge, read_ranks
from parity.record.report import Report
from parity.trace.writer import clear_trace
from parity.worker.program_request import ProgramRequest
from parity.worker.reaper import remove_folder, removed_when_killed

NOT_RECORDED = 2  # the exit code of a program that ended well and of which nothing was recorded, or not all
FOLLOW_SECONDS = 0.2
ENOUGH_SECONDS = 30.0  # for the program to end once all ranks have recorded what was wanted
HANGS_SECONDS = 1800.0  # as long as gloo itself waits in a collective
LOST_SECONDS = 60.0  # for a launcher to notice that a rank is gone


def record_program(
    command: Sequence[str], out: str, steps: int | None = None, skip: int = 0, silence: float = HANGS_SECONDS
) -> int:
    """Runs a program and leaves a trace of its training steps.

    Args:
      command: as it would be typed; its output is its own.
      out: folder of the trace.
      steps: number of training steps to record, or None for all.
      skip: number of training steps that go by first.
      silence: seconds without a recorded step, once there is one, after which the program counts as hanging.

    Raises:
      TraceError: `out` holds something other than a trace.

    Returns:
      The command's exit code; 0 once `steps` are recorded; 2 where it ended well and nothing was recorded, or not all, or
      where it hung.
    """
    # At once, not when there is a new one: what this program leaves nobody is to take an older trace for.
    clear_trace(out)
    # Beside the trace, for it may not fit elsewhere: it is what the trace is made of.
    parent = os.path.dirname(os.path.abspath(out))
    os.makedirs(parent, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{os.path.basename(out)}-", dir=parent))
    with removed_when_killed(str(folder)):
        try:
            return _recorded(command, out, folder, steps, skip, silence)
        finally:
            remove_folder(str(folder))


def _recorded(command: Sequence[str], out: str, folder: Path, steps: int | None, skip: int, silence: float) -> int:
    report = Report(steps)
    request = ProgramRequest(str(folder / "ranks"), steps=steps, skip=skip)
    with contextlib.closing(Program(command, request, folder)) as program:
        code = _follow(program, report, silence)
    ranks = read_ranks(request.ranks)
    whole = ranks.complete and (code == 0 or ranks.enough)
    if not ranks.steps():
        report.nothing(ranks, code)
        with contextlib.suppress(OSError):
            os.rmdir(out)
        return code or NOT_RECORDED
    trace = merge(ranks, out, whole)
    report.end(trace, whole, ranks, code)
    if ranks.enough:
        return 0
    return code or (0 if whole else NOT_RECORDED)


def _follow(program: Program, report: Report, silence: float) -> int:
    """Waits until the command ends, hangs, or has recorded enough; returns its exit code."""
    done, since = -1, time.monotonic()
    while (code := program.poll()) is None:
        time.sleep(FOLLOW_SECONDS)
        ranks = read_ranks(program.request.ranks)
        steps = len(ranks.steps())
        if steps != done:
            done, since = steps, time.monotonic()
            report.progress(ranks)
        waited = time.monotonic() - since
        # All is there: what hangs on its way out is ended, and that is no failure.
        if ranks.enough and waited > ENOUGH_SECONDS:
            return 0
        lost = ranks.lost() if waited > min(LOST_SECONDS, silence) else []
        if lost or (done > 0 and waited > silence):
            gone = f", and rank {', '.join(map(str, lost))} is gone" if lost else ""
            report.hangs(f"none for {waited:.0f} s{gone}")
            return NOT_RECORDED
    return code
