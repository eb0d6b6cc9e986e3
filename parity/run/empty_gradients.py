"""Judges again what optimizers make of gradients that are nothing but rounding."""

from collections.abc import Iterator, Sequence

from parity.judge.level1 import LIMIT
from parity.judge.numbers import distance
from parity.judge.result import Check
from parity.run.asked import Asked
from parity.run.perturb import as_float64, one_ulp, reordered
from parity.run.quantities import FEEDS, WEIGHTS
from parity.run.recorded import OfBoth, Playing, Recorded
from parity.run.reference import TensorFlowRole
from parity.run.states import Tensors, read_all, write_states
from parity.trace import Trace, parse_key

UPDATED = ("slot", "var", "ema")
DRAWS = 3
NOTE = (
    "its gradient is nothing but rounding; judged by what an ulp and another order of the examples make of its update"
)


def settle_empty_gradients(checks: list[Check], recorded: Recorded, playing: Playing, states: OfBoth) -> list[Check]:
    """Returns the checks of level 1, updates by gradients of nothing but rounding judged by what rounding makes of them.

    A bias in front of a batch norm has a gradient of zero, and what a program computes for it is rounding. Where Adam's
    slots are empty its update of such a bias is about the learning rate in float32, whose rounding is far above epsilon, and
    proportional to the gradient in float64, whose rounding is far below: float32's distance from float64 foretells too
    little. So where such an update differs, the reference makes the step again, other weights and inputs one ulp of float64
    away and the examples of each shard in another order, and 64 times the largest distance of these runs is allowed beside
    what was.

    Args:
      checks: of level 1.
      recorded: what they are about.
      playing: the sides, live ones.
      states: the states before each step.
    """
    empty = {
        (check.step, parse_key(check.key).name)
        for check in checks
        if check.run == "lockstep" and parse_key(check.key).quantity == "grad"
        if check.verdict == "same" and check.size <= check.allowed
    }
    lost = [check for check in checks if _is_lost(check, empty)]
    if not lost or not isinstance(playing.tf, TensorFlowRole):
        return checks
    reference, names = recorded.lockstep.reference64, {parse_key(check.key).name for check in lost}
    runs = list(_moved(playing, states, sorted({check.step for check in lost}), names))
    judged = {check: _judged(check, max(_apart(run, reference, check) for run in runs)) for check in lost}
    return [judged.get(check, check) for check in checks]


def _is_lost(check: Check, empty: set[tuple[int, str]]) -> bool:
    if check.run != "lockstep" or check.verdict != "different":
        return False
    key = parse_key(check.key)
    return key.quantity in UPDATED and (check.step, key.name) in empty


def _apart(run: Trace, reference: Trace, check: Check) -> float:
    return distance(run.step(check.step).read(check.key), reference.step(check.step).read(check.key))


def _judged(check: Check, spread: float) -> Check:
    allowed = check.allowed + LIMIT * spread
    if check.difference > allowed:
        return check
    return check._replace(verdict="same", allowed=allowed, note=NOTE)


def _moved(playing: Playing, states: OfBoth, steps: Sequence[int], names: set[str]) -> Iterator[Trace]:
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


def empty_notes(checks: Sequence[Check]) -> list[str]:
    """Returns what a report says of updates that were judged so."""
    found = sorted({check.key for check in checks if check.note == NOTE})
    return [f"{', '.join(found)}: {NOTE}"] if found else []
