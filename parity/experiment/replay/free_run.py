"""Trains a replayed port from the recorded start with nobody resetting it, and judges it against the shadow's free run."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from parity.diagnose.catalogue import build_cause
from parity.experiment.replay.port import ReplayedPort
from parity.experiment.replay.script import Part
from parity.experiment.sides.recorded_side import RecordedSide
from parity.judge.result import Cause
from parity.judge.spread import MeasuredSpread
from parity.mapping.states import translated, write_states
from parity.trace import (
    SHADOW_FILE,
    SHADOW_SPREAD,
    MissingError,
    Trace,
    TraceError,
    is_learning_rate,
    parse_key,
    select,
)
from parity.trace.arrays import Tensors
from parity.trace.bounded import read_json

NO_FREE_RUN = "its float64 shadow has none: make it again with python -m tf_towers.shadow, where TensorFlow is"
SAME_STEP_BY_STEP = (
    "each step alone, from the recorded state, is the same: what differs is what the port carries from step to step, "
    "or what its optimizer begins with"
)


class FreeRuns(NamedTuple):
    """Both sides in float64 with nobody resetting them.

    Fields:
      reference: the recorded script.
      candidate: the port.
      states: step k holds the state of the script before step k.
      spread: how far an ulp carries.
    """

    reference: Trace
    candidate: Trace
    states: Trace
    spread: MeasuredSpread


def train_freely(
    replayed: ReplayedPort, shadow: Trace, out: Path, name: str = "free", feeds: Path | None = None
) -> tuple[FreeRuns | None, str]:
    """Has a port train freely.

    Where the recording starts with the training, only weights and statistics are loaded: slots and counters begin as the
    port's optimizer makes them. Of a script with several optimizers, what the others have trained is taken from the
    script's run before every step.

    Args:
      replayed: the port of one part.
      shadow: the float64 shadow of the recorded trace.
      out: folder for what is written.
      name: of the run.
      feeds: other batches than the recorded ones, as `Replayed.write_feeds` leaves them.

    Returns:
      ``(runs, "")``, or ``(None, why there are none)``.
    """
    # A replayed step moves no averages; a program does.
    part, folder = replayed.part.averaging() if replayed.has_program else replayed.part, Path(shadow.directory)
    side = RecordedSide(part, shadow, out)
    try:
        freely, measured = side.freely, Trace(folder / SHADOW_SPREAD)
    except MissingError:
        return None, told_of_shadow(part, "free") or NO_FREE_RUN
    except TraceError as error:
        return None, str(error)
    start = without_averages(start_of(freely.before(part.steps[0]), part.begins))
    others = _others(replayed, freely) if part.trained is not None or part.held else None
    states = write_states(out / f"{name}-states", ((number, freely.before(number)) for number in part.steps))
    candidate = replayed.run_freely(translated(replayed.join, start), others, name, feeds)
    reference = side.run(name, "float64", follow=False)
    return FreeRuns(reference, candidate, Trace(states), MeasuredSpread(measured, part.prefix)), ""


def start_of(state: Tensors, begins: bool) -> Tensors:
    """Returns what a free run starts from.

    Args:
      state: of the script before the first step, in the shadow's free run.
      begins: whether the recording starts with the training.
    """
    # Weights, their averages and statistics alone: slots and counters then are what the port's own optimizer begins with,
    # which is judged.
    return select(state, "var", "stat", "ema") if begins else state


def without_averages(tensors: Tensors) -> Tensors:
    """Returns a state without moving averages of weights, for a port that is stepped by the tool and keeps none."""
    return {text: value for text, value in tensors.items() if parse_key(text).quantity != "ema"}


def counts_otherwise(part: Part, runs: FreeRuns) -> list[Cause]:
    """Compares what both optimizers count before their first step, which loading a state would hide."""
    number = part.steps[0]
    one, other = runs.reference.step(number), runs.candidate.step(number)
    for text in one.names("state"):
        if text not in other or is_learning_rate(text):
            continue
        wanted, got = float(one.read(text)), float(other.read(text))
        # A count in float32 or int64 is the same count.
        if np.float32(wanted) != np.float32(got):
            name = parse_key(text).name
            evidence = f"{name} is {got:.9g} before the candidate's first step, {wanted:.9g} before the script's"
            return [build_cause("step_count", evidence=evidence)]
    return []


def _others(replayed: ReplayedPort, freely: Part) -> Iterator[tuple[int, Tensors]]:
    trained = freely.trained or frozenset()
    for number in freely.steps:
        state = freely.before(number)
        if freely.trained is None:
            # The shadow has counters and what is averaged on the way to a statistic from the recording in every step.
            yield number, translated(replayed.join, {key: state[key] for key in freely.held_keys if key in state})
            continue
        # What both train is the script's where the other one had its turn, and carried from step to step where it had not.
        own = trained - freely.moved_by_others(number)
        theirs = {text: value for text, value in select(state, "var").items() if parse_key(text).name not in own}
        # Statistics of layers that several optimizers run through move with each: they are the script's.
        theirs.update(select(state, "stat"))
        yield number, translated(replayed.join, theirs)


def told_of_shadow(part: Part, name: str) -> str:
    """Returns what the file beside a trace says why its shadow lacks something; nothing where it says nothing."""
    with suppress(OSError, ValueError, KeyError):
        told = read_json(str(Path(part.trace.directory) / SHADOW_FILE))
        return str(told[name]) if isinstance(told, dict) else ""
    return ""
