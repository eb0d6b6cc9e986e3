"""Causes in the schedule of the learning rate: the rates are right, and come at the wrong steps."""

from collections.abc import Callable

from parity.causes.evidence import Evidence
from parity.judge.result import Cause, FirstDifference

RATE = "state/learning_rate"
ROUNDING = 2.0**-18  # between a schedule in float32 and the same one in double
TELLING = 1e-4  # by how much a schedule must have changed, relative, to tell two steps apart
PERIODS = range(2, 1001)


def shifted_schedule(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The candidate's learning rate is the reference's of the step before, or of the step after."""
    rates = _rates(first, evidence)
    if rates is None:
        return None
    one, other = rates
    count = len(one)
    for late, pairs, cure in (
        (True, [(one[k - 1], other[k]) for k in range(1, count)], "step the schedule once before the first update"),
        (False, [(one[k + 1], other[k]) for k in range(count - 1)], "call scheduler.step() after optimizer.step()"),
    ):
        told = [wanted for wanted, _ in pairs]
        if len(pairs) < 2 or not _varies(told) or not all(_same(*pair) for pair in pairs):
            continue
        whose = "before" if late else "after"
        return Cause(
            "shifted_schedule",
            f"the learning rate comes a step too {'late' if late else 'early'}",
            f"at all {len(pairs)} steps the candidate's learning rate is the reference's of the step {whose}, e.g. "
            f"{other[first.check.step]:.6g} at step {first.check.step}",
            cure,
        )
    return None


def slow_schedule(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The candidate's schedule counts something that is rarer than updates: epochs; or it stands still."""
    rates = _rates(first, evidence)
    if rates is None:
        return None
    one, other = rates
    cure = "step the schedule after every update, as the graph's global step counts, not once per epoch"
    if all(_same(one[0], rate) for rate in other) and _varies(one):
        return Cause(
            "slow_schedule",
            f"the schedule stands still at {other[0]:.6g}",
            f"the candidate's learning rate is the reference's first one at all {len(other)} steps, while the reference's "
            f"goes to {one[-1]:.6g}: never stepped, or once per epoch",
            cure,
        )
    period = _first_that(lambda n: all(_same(one[k // n], rate) for k, rate in enumerate(other)), len(one))
    if period is None or not _varies(other):
        return None
    return Cause(
        "slow_schedule",
        f"the schedule is stepped once in {period} updates",
        f"at all {len(other)} steps the candidate's learning rate is the reference's of step floor(k / {period})",
        cure,
    )


def _rates(first: FirstDifference, evidence: Evidence) -> tuple[list[float], list[float]] | None:
    if first.check.key != RATE:
        return None
    found: tuple[list[float], list[float]] = ([], [])
    for number, step in enumerate(evidence.steps):
        files = (evidence.reference.step(step), evidence.candidate.step(step))
        if number != step or not all(RATE in file for file in files):
            return None
        for kept, file in zip(found, files, strict=True):
            kept.append(float(file.read(RATE)))
    return found


def _same(one: float, other: float) -> bool:
    return abs(one - other) <= ROUNDING * abs(one)


def _varies(rates: list[float]) -> bool:
    return max(rates) - min(rates) > TELLING * max(abs(rate) for rate in rates)


def _first_that(holds: Callable[[int], bool], below: int) -> int | None:
    return next((n for n in PERIODS if n < below and holds(n)), None)
