"""The runs that every recording makes: in lockstep, free, from one ulp away, and the first steps once more."""

from concurrent.futures import Future
from pathlib import Path

from parity.mapping.states import read_all, write_init, write_states
from parity.run.asked import REPETITION, Asked
from parity.run.perturb import as_float64, one_ulp
from parity.run.quantities import EVERYTHING, FEEDS, FREE, WEIGHTS
from parity.run.recorded import OfBoth, Playing
from parity.run.reference import TensorFlowRole
from parity.trace import Trace

REPLICAS = 3
REPEATED = 3


def rough_reference(playing: Playing) -> "Future[Trace]":
    """Starts the reference's float32 trajectory, from which all else is made."""
    quantities = EVERYTHING + playing.inference
    return playing.tf.run(
        Asked("float32", "float32", playing.feeds.tf, playing.start.tf, None, quantities, playing.steps)
    )


def free_candidate(playing: Playing) -> "Future[Trace]":
    """Starts the candidate's float64 run that nobody resets."""
    quantities = FREE + playing.inference
    return playing.torch.run(
        Asked("free", "float64", playing.feeds.torch, playing.start.torch, None, quantities, playing.steps)
    )


def candidate_in_lockstep(playing: Playing, states: Path) -> dict[str, "Future[Trace]"]:
    """Starts the candidate's lockstep runs; returns them by precision.

    Args:
      playing: the sides.
      states: trace of the states before each step, in the candidate's names.
    """
    feeds, start, quantities = playing.feeds.torch, playing.start.torch, EVERYTHING + playing.inference
    return {
        precision: playing.torch.run(Asked(precision, precision, feeds, start, states, quantities, playing.steps))
        for precision in ("float64", "float32")
    }


def reference_in_float64(playing: Playing, states: Path) -> dict[str, "Future[Trace]"]:
    """Starts the reference's float64 runs; returns them by name: "float64" in lockstep, "free", "replica-0", ...

    Args:
      playing: the sides.
      states: trace of the states before each step, in the reference's names.
    """
    playing.tf.prepare("float64", playing.inputs).result()
    quantities = EVERYTHING + playing.inference
    lockstep = Asked("float64", "float64", playing.feeds.tf, playing.start.tf, states, quantities, playing.steps)
    free = lockstep._replace(name="free", follow=None, quantities=FREE + playing.inference)
    asked = [lockstep, free, *replicas(playing, free)]
    return {each.name: playing.tf.run(each) for each in asked}


def replicas(playing: Playing, free: Asked) -> list[Asked]:
    """Returns runs like a free one of the reference that start one ulp of float64 away, on batches one ulp away."""
    prefix = "" if free.name == "free" else f"{free.name}-"
    return [_replica(playing, free, f"{prefix}replica-{number}", number) for number in range(REPLICAS)]


def _replica(playing: Playing, free: Asked, name: str, number: int) -> Asked:
    start, feeds = Trace(free.start), Trace(free.feeds)
    moved = one_ulp(as_float64(read_all(start.init())), number, WEIGHTS)
    batches = (
        (step, one_ulp(as_float64(read_all(feeds.step(step))), 1000 * number + step, FEEDS)) for step in playing.steps
    )
    return free._replace(
        name=name,
        start=write_init(playing.out / "start" / name, moved),
        feeds=write_states(playing.out / "feeds" / name, batches),
    )


def lockstep_repeated(playing: Playing, states: OfBoth) -> dict[str, "Future[Trace]"]:
    """Starts the first steps of the float32 lockstep once more; returns them by side, no reference's from a golden trace.

    Args:
      playing: the sides.
      states: the states before each step.
    """
    repeats = {"candidate": candidate_repeated(playing, states)}
    if isinstance(playing.tf, TensorFlowRole):
        repeats["reference"] = playing.tf.run(_repetition(playing, playing.feeds.tf, playing.start.tf, states.tf))
    return repeats


def candidate_repeated(playing: Playing, states: OfBoth) -> "Future[Trace]":
    """Starts the first steps of the candidate's float32 lockstep once more."""
    return playing.torch.run(_repetition(playing, playing.feeds.torch, playing.start.torch, states.torch))


def _repetition(playing: Playing, feeds: Path, start: Path, states: Path) -> Asked:
    return Asked(REPETITION, "float32", feeds, start, states, EVERYTHING, playing.steps[:REPEATED])
