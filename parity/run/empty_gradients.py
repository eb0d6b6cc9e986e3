"""Judges again what optimizers make of gradients that are nothing but rounding."""

from collections.abc import Callable, Sequence

from parity.judge.allowances import MeasuredSpread
from parity.judge.levels.function import LIMIT
from parity.judge.result import Check
from parity.trace import Trace, parse_key

UPDATED = ("slot", "var", "ema")
NOTE = (
    "its gradient is nothing but rounding; judged by what an ulp and another order of the examples make of its update"
)
Moves = Callable[[Check], float]


def settle_empty_gradients(checks: list[Check], measure: Callable[[Sequence[Check]], Moves]) -> list[Check]:
    """Returns the checks of level 1, updates by gradients of nothing but rounding judged by what rounding makes of them.

    A bias in front of a batch norm has a gradient of zero, and what a program computes for it is rounding. Where Adam's
    slots are empty its update of such a bias is about the learning rate in float32, whose rounding is far above epsilon, and
    proportional to the gradient in float64, whose rounding is far below: float32's distance from float64 foretells too
    little. So where such an update differs, the reference makes the step again, other weights and inputs one ulp of float64
    away and the examples of each shard in another order, and 64 times the largest distance of these runs is allowed beside
    what was.

    Args:
      checks: of level 1.
      measure: takes the checks of such updates; returns a function of each to the largest distance of those runs in it.
    """
    empty = empty_in(checks)
    lost = [check for check in checks if _is_lost(check, empty)]
    if not lost:
        return checks
    moves = measure(lost)
    judged = {check: _judged(check, moves(check)) for check in lost}
    return [judged.get(check, check) for check in checks]


def measure_kept(kept: Trace, prefix: str = "") -> Callable[[Sequence[Check]], Moves]:
    """Returns a `measure` that reads distances which were measured where the reference is.

    Args:
      kept: a trace of them, by step and tensor.
      prefix: what names start with in it.
    """
    spread, known = MeasuredSpread(kept, prefix), set(kept.step_numbers)
    return lambda lost: lambda check: spread.measured(check.step, check.key) if check.step in known else 0.0


def empty_in(checks: Sequence[Check]) -> set[tuple[int, str]]:
    """Returns step and variable of every gradient that is the same and within its own allowance: nothing but rounding."""
    return {
        (check.step, parse_key(check.key).name)
        for check in checks
        if check.run == "lockstep" and parse_key(check.key).quantity == "grad"
        if check.verdict == "same" and check.size <= check.allowed
    }


def _is_lost(check: Check, empty: set[tuple[int, str]]) -> bool:
    if check.run != "lockstep" or check.verdict != "different":
        return False
    key = parse_key(check.key)
    return key.quantity in UPDATED and (check.step, key.name) in empty


def _judged(check: Check, spread: float) -> Check:
    allowed = check.allowed + LIMIT * spread
    if check.difference > allowed:
        return check
    return check._replace(verdict="same", allowed=allowed, note=NOTE)


def empty_notes(checks: Sequence[Check]) -> list[str]:
    """Returns what a report says of updates that were judged so."""
    found = sorted({check.key for check in checks if check.note == NOTE})
    return [f"{', '.join(found)}: {NOTE}"] if found else []
