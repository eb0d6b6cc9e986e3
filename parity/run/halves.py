"""Runs the candidate in half precision beside its own float32, and under perturbation by half a unit of it."""

from collections.abc import Sequence

from parity.judge.levels.mixed import Halves
from parity.mapping.states import read_all, write_states
from parity.run.asked import Asked
from parity.run.perturb import one_roundoff
from parity.run.quantities import EVERYTHING, FEEDS, FREE, WEIGHTS
from parity.run.recorded import OfBoth, Playing
from parity.trace import Trace

DRAWS = 4


def record_halves(playing: Playing, states: OfBoth, dtype: str, opt_level: str) -> Halves:
    """Runs the candidate at its level, from the states of the other levels and freely, and the draws beside it.

    Args:
      playing: the sides, which have recorded the case and still run.
      states: the states before each step.
      dtype: "float16" or "bfloat16".
      opt_level: "O1", "O2" or "O3".

    Raises:
      SideFailed: the candidate could not run at this level.
    """
    lockstep = _asked(playing, states, "mixed", EVERYTHING)._replace(mixed=True, recorded_counters=True)
    mixed = playing.torch.run(lockstep).result()
    freely = _asked(playing, states, "mixed-free", FREE)._replace(mixed=True, follow=None)
    free = playing.torch.run(freely).result()
    full = playing.torch.run(lockstep._replace(name="full", mixed=False)).result()
    unit = Halves(full, mixed, free, (), full, dtype, opt_level).unit
    draws = [_draw(playing, states, number, unit) for number in range(DRAWS)]
    return Halves(full, mixed, free, draws, Trace(states.torch), dtype, opt_level)


def _asked(playing: Playing, states: OfBoth, name: str, quantities: Sequence[str]) -> Asked:
    feeds, start = playing.feeds.torch, playing.start.torch
    return Asked(name, "float32", feeds, start, states.torch, tuple(quantities), playing.steps)


def _draw(playing: Playing, states: OfBoth, number: int, unit: float) -> tuple[Trace, Trace]:
    """Runs all steps in float32 as if a narrower type of roundoff `unit` had rounded weights, batches and products.

    Returns:
      The trace, and the states before its steps.
    """
    name = f"half-{number}"
    state, fed = Trace(states.torch), Trace(playing.feeds.torch)
    moved = ((n, one_roundoff(read_all(state.step(n)), 31 * number + 1009 * n, WEIGHTS, unit)) for n in playing.steps)
    batches = ((n, one_roundoff(read_all(fed.step(n)), 37 * number + 1013 * n, FEEDS, unit)) for n in playing.steps)
    before = write_states(playing.out / "states" / name, moved)
    feeds = write_states(playing.out / "feeds" / name, batches)
    asked = _asked(playing, states, name, EVERYTHING)._replace(feeds=feeds, follow=before)
    return playing.torch.run(asked._replace(recorded_counters=True, noise=(unit, number))).result(), Trace(before)
