"""Replays a trace on a training program that nobody edits: launched by its own command, for each run anew."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from parity.experiment.replay.port import Port
from parity.experiment.replay.script import Part, ReplayError, parts_of
from parity.experiment.replay.session import replay
from parity.experiment.sides.launched import LaunchedProgram, Recorded
from parity.experiment.spec import Progress, silent
from parity.judge.result import Result
from parity.trace import Trace

OF_THE_PROGRAM = "its own"  # where a port names its functions


def replay_program(
    recorded: Path,
    command: Sequence[str],
    mapping_file: Path | None,
    out: Path,
    tick: Progress = silent,
    in_detail: bool = False,
    levels: Sequence[str] = ("function", "float32"),
    silence: float = 300.0,
) -> Result:
    """Replays a trace on a program: it trains on the recorded batches, from each recorded state and freely.

    Args:
      recorded: a trace as `parity record` leaves it.
      command: of the program, as it would be typed.
      mapping_file: a case or a file with its [mapping] tables; by default names and shapes decide.
      out: folder for the traces.
      tick: told how far it is: what, done, total.
      in_detail: look closer at tensors that differ.
      levels: those to decide.
      silence: seconds without a step or a line of output after which a launch is ended.

    Raises:
      ReplayError: as of `replay`, or the recording has several optimizers.
      SideFailed: the program does not run, or cannot be given what was recorded.
    """
    part = _the_one(parts_of(Trace(recorded, whole=False)))
    name = part.name
    port = Port("", {name: OF_THE_PROGRAM}, {name: OF_THE_PROGRAM}, [], silence)
    rates = {str(number): part.rate(number) for number in part.steps if part.recorded_rate(number) is not None}
    training = Recorded(part.steps[0], part.towers, bool(part.facts.get("clipped")), rates)
    with contextlib.closing(LaunchedProgram(command, training, out, silence)) as program:
        return replay(recorded, port, mapping_file, out, tick, in_detail, levels, program)


def _the_one(parts: Sequence[Part]) -> Part:
    if len(parts) == 1:
        return parts[0]
    raise ReplayError(
        f"replay: expected a recording with one optimizer for a program that is launched as it is, got {len(parts)}: "
        f"{', '.join(part.name for part in parts)}. Replay its parts with --torch and --loss OPTIMIZER=MODULE:FUNCTION."
    )
