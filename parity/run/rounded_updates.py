"""Measures on a live reference how far rounding moves what its optimizer makes of a gradient of nothing but rounding."""

from collections.abc import Iterator, Sequence

from parity.judge.metrics import distance
from parity.judge.result import Check
from parity.mapping.states import Tensors, read_all, write_states
from parity.run.asked import Asked
from parity.run.empty_gradients import UPDATED, Moves
from parity.run.perturb import as_float64, one_ulp, reordered
from parity.run.quantities import FEEDS, WEIGHTS
from parity.run.recorded import OfBoth, Playing, Recorded
from parity.trace import Trace, parse_key

DRAWS = 3


def measure_live(recorded: Recorded, playing: Playing, states: OfBoth, lost: Sequence[Check]) -> Moves:
    """Has the reference make steps again, other weights and inputs an ulp away and the examples in another order.

    Args:
      recorded: what was recorded of the case.
      playing: the sides, live ones.
      states: the states before each step.
      lost: the checks of the updates that are judged so.

    Returns:
      Function of such a check to the largest distance of those runs from the reference.

    Counterpart: tf_towers.shadow.empty.EmptyGradients
    """
    reference, names = recorded.lockstep.reference64, {parse_key(check.key).name for check in lost}
    runs = list(rounded_runs(playing, states, sorted({check.step for check in lost}), names))
    return lambda check: max(_apart(run, reference, check) for run in runs)


def _apart(run: Trace, reference: Trace, check: Check) -> float:
    return distance(run.step(check.step).read(check.key), reference.step(check.step).read(check.key))


def rounded_runs(playing: Playing, states: OfBoth, steps: Sequence[int], names: set[str]) -> Iterator[Trace]:
    """Yields the reference's runs; the variables that are judged stay where they are, so that only rounding moves them."""
    playing.tf.prepare("float64", playing.inputs).result()
    before, fed = Trace(states.tf), Trace(playing.feeds.tf)
    for draw in range(DRAWS):
        name = f"empty-{draw}"
        moved = ((step, _one_ulp(read_all(before.step(step)), draw + DRAWS * step, names)) for step in steps)
        batches = ((n, _drawn(playing, read_all(fed.step(n)), draw + DRAWS * n)) for n in steps)
        feeds = write_states(playing.out / "feeds" / f"tf-{name}", batches)
        follow = write_states(playing.out / "states" / f"tf-{name}", moved)
        yield playing.tf.run(Asked(name, "float64", feeds, playing.start.tf, follow, UPDATED, steps, True)).result()


def _one_ulp(state: Tensors, seed: int, names: set[str]) -> Tensors:
    wide = as_float64(state)
    others = {text: value for text, value in wide.items() if parse_key(text).name not in names}
    return {**wide, **one_ulp(others, seed, WEIGHTS)}


def _drawn(playing: Playing, batch: Tensors, seed: int) -> Tensors:
    return reordered(one_ulp(as_float64(batch), seed, FEEDS), playing.shards, seed, playing.uneven)
