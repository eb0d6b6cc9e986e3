"""Runs steps under perturbation on both sides: how far single precision carries them apart by rounding alone."""

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

from parity.mapping.states import Tensors, read_all, translated, translated_batch, write_states
from parity.mapping.trace_map import Join
from parity.run.asked import Asked
from parity.run.perturb import one_ulp, reordered
from parity.run.quantities import FEEDS, SPREAD, WEIGHTS
from parity.run.recorded import Playing
from parity.trace import Trace

DRAWS = 4


def run_draws(playing: Playing, join: Join, states: Path) -> Iterator[tuple["Future[Trace]", "Future[Trace]"]]:
    """Starts three steps in float32 for each draw, some moved by one ulp, the others with the examples in another order.

    Args:
      playing: the sides.
      join: names and layouts of both sides.
      states: trace of the states before each step, in the reference's names.

    Yields:
      The reference's and the candidate's run of a draw.
    """
    steps = sorted({0, len(playing.steps) // 2, len(playing.steps) - 1})
    state, fed = Trace(states), Trace(playing.feeds.tf)
    out, into = playing.out / "states", playing.out / "feeds"
    for draw in range(2 * DRAWS):
        name = f"ulp-{draw}" if draw < DRAWS else f"order-{draw - DRAWS}"
        drawn = [
            (step, *_drawn(playing, read_all(state.step(step)), read_all(fed.step(step)), draw, step)) for step in steps
        ]
        moved = [(step, before) for step, before, _ in drawn]
        batches = [(step, batch) for step, _, batch in drawn]
        asked = Asked(
            name,
            "float32",
            write_states(into / f"tf-{name}", batches),
            playing.start.tf,
            write_states(out / f"tf-{name}", moved),
            SPREAD,
            steps,
            True,
        )
        reference = playing.tf.run(asked)
        asked = asked._replace(
            feeds=write_states(into / f"torch-{name}", ((n, translated_batch(join, batch)) for n, batch in batches)),
            start=playing.start.torch,
            follow=write_states(out / f"torch-{name}", ((n, translated(join, before)) for n, before in moved)),
        )
        yield reference, playing.torch.run(asked)


def _drawn(playing: Playing, before: Tensors, batch: Tensors, draw: int, step: int) -> tuple[Tensors, Tensors]:
    if draw >= DRAWS:
        return before, reordered(batch, playing.shards, 7901 * draw + step, playing.uneven)
    return one_ulp(before, 7919 * draw + step, WEIGHTS), one_ulp(batch, 7907 * draw + step, FEEDS)
