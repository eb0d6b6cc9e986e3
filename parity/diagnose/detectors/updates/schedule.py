"""Causes in the schedule of the learning rate: the rates are right, and come at the wrong steps."""

from collections.abc import Callable
from itertools import pairwise

from parity.diagnose.catalogue import build_cause
from parity.diagnose.evidence import Evidence
from parity.judge.result import Cause, FirstDifference
from parity.trace import is_learning_rate

# Between a schedule in float32 and the same one in double, relative: 2^-18 = 3.8e-6 is 64 roundings of u32 = 2^-24; the
# graph's decays are at most 9.5e-7 away from Python's (docs/semantics.md).
ROUNDING_OF_RATE = 2.0**-18
# By how much a schedule must have changed, relative, to tell two steps apart: 26 times what rounding may.
LEAST_CHANGE_OF_RATE = 1e-4
PERIODS = range(2, 1001)  # steps that a schedule may stand still for
FEWEST_RATES = 3  # rates that tell a shape
MOST_RATES_SHOWN = 6  # rates that are printed


def shifted_schedule(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The candidate's learning rate is the reference's of the step before, or of the step after."""
    rates = _rates(first, evidence)
    if rates is None:
        return None
    one, other = rates
    count = len(one)
    # late: rate_k of the port is rate_(k-1) of the graph, as where a scheduler steps after the update. early:
    # rate_(k+1).
    for late, pairs in (
        (True, [(one[k - 1], other[k]) for k in range(1, count)]),
        (False, [(one[k + 1], other[k]) for k in range(count - 1)]),
    ):
        told = [wanted for wanted, _ in pairs]
        # Rates that do not vary are the same shifted by any number of steps.
        if len(pairs) < 2 or not _varies(told) or not all(_same(*pair) for pair in pairs):
            continue
        whose = "before" if late else "after"
        return build_cause(
            "shifted_schedule",
            "late" if late else "early",
            evidence=f"at all {len(pairs)} steps the candidate's learning rate is the reference's of the step {whose}, e.g. "
            f"{other[first.check.step]:.6g} at step {first.check.step}",
        )
    return None


def slow_schedule(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The candidate's schedule counts something that is rarer than updates: epochs; or it stands still."""
    rates = _rates(first, evidence)
    if rates is None:
        return None
    one, other = rates
    if all(_same(one[0], rate) for rate in other) and _varies(one):
        return build_cause(
            "slow_schedule",
            "never",
            evidence=f"the candidate's learning rate is the reference's first one at all {len(other)} steps, "
            "while the reference's "
            f"goes to {one[-1]:.6g}: a schedule that is never stepped, or once per epoch; or one in stairs, or with later "
            "boundaries, that first moves behind these steps",
            rate=other[0],
            count=len(other),
        )
    # rate_k = one[floor(k / n)]: the graph's own rates, each n times.
    period = _first_that(lambda n: all(_same(one[k // n], rate) for k, rate in enumerate(other)), len(one))
    if period is None or not _varies(other):
        return _at_lower_speed(one, other)
    return build_cause(
        "slow_schedule",
        "seldom",
        evidence=f"at all {len(other)} steps the candidate's learning rate is the reference's of step floor(k / {period})",
        period=period,
    )


def other_rates(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The candidate's learning rates are others: by one factor, from some step on, up to one, or altogether."""
    rates = _rates(first, evidence, every=False)
    if rates is None:
        return None
    one, other = rates
    # Steps, counted from the first recorded one, at which the rates are apart.
    apart = [k for k, pair in enumerate(zip(one, other, strict=True)) if not _same(*pair)]
    if not apart:
        return None
    # A rate of 0 has no ratio: then no factor is told of all steps.
    factors = [mine / rate for mine, rate in zip(other, one, strict=True) if rate]
    listed = f"step by step the candidate's learning rate is {_listed(other)}, the reference's {_listed(one)}"
    if len(factors) == len(one) and all(_same(factors[0], factor) for factor in factors):
        return build_cause("learning_rate", "of a schedule", evidence=listed, factor=factors[0])
    # Apart from the first step to a last one, and equal ever after: a warm-up that one side lacks.
    if apart == [*range(apart[-1] + 1)] and len(apart) < len(one):
        return build_cause("learning_rate", "up to a step", evidence=listed, last=apart[-1], then=apart[-1] + 1)
    shape = _shape(one, other)
    if shape is not None:
        variant, wanted, got = shape
        return build_cause("learning_rate", variant, evidence=listed, got=got, wanted=wanted)
    return build_cause("learning_rate", "from a step", evidence=listed, start=apart[0])


def _shape(one: list[float], other: list[float]) -> tuple[str, float, float] | None:
    # Schedules that are straight, or fall by one factor, are said by what they do in a step.
    # Both begin alike: else the first rate is what is wrong, and not what a step does to it.
    if len(one) < FEWEST_RATES or not _same(one[0], other[0]):
        return None
    ratios = [_ratio(rates) for rates in (one, other)]
    if ratios[0] is not None and ratios[1] is not None:
        return "by a factor a step", ratios[0], ratios[1]
    slopes = [_slope(rates) for rates in (one, other)]
    if slopes[0] is not None and slopes[1] is not None:
        return "by a step", slopes[0], slopes[1]
    return None


def _ratio(rates: list[float]) -> float | None:
    if not all(rates):
        return None
    # exponential_decay and its kin: rate_(k+1) / rate_k is one number.
    ratios = [after / before for before, after in pairwise(rates)]
    return ratios[0] if all(_same(ratios[0], ratio) for ratio in ratios) else None


def _slope(rates: list[float]) -> float | None:
    # polynomial_decay of power 1 and linear warm-ups: rate_(k+1) - rate_k is one number, to the rounding of a rate.
    slopes = [after - before for before, after in pairwise(rates)]
    same = max(slopes) - min(slopes) <= ROUNDING_OF_RATE * max(abs(rate) for rate in rates)
    return slopes[0] if same else None


def _at_lower_speed(one: list[float], other: list[float]) -> Cause | None:
    # Where the candidate's schedule takes n steps for one of the reference's, its every nth rate is one of the
    # reference's.
    for slower in range(2, len(one)):
        # rate_(n k) = one[k] where a smooth schedule runs n times slower, as with n times the decay steps.
        told = [(one[k // slower], other[k]) for k in range(0, len(one), slower)]
        if (
            _varies([wanted for wanted, _ in told])
            and all(_same(*pair) for pair in told)
            and _between(one, other, slower)
        ):
            return build_cause(
                "slow_schedule",
                "slower",
                evidence=f"at steps 0, {slower}, ... the candidate's learning rate is the reference's of steps 0, 1, ...: "
                f"{_listed(other)} where the reference has {_listed(one)}",
                slower=slower,
            )
    return None


def _between(one: list[float], other: list[float], slower: int) -> bool:
    # What it does between lies between.
    for k, rate in enumerate(other):
        # Between two rates of the reference, or at the last one that is known.
        ends = one[k // slower], one[min(k // slower + 1, len(one) - 1)]
        if not min(ends) * (1 - ROUNDING_OF_RATE) <= rate <= max(ends) * (1 + ROUNDING_OF_RATE):
            return False
    return True


def _listed(rates: list[float]) -> str:
    shown = [f"{rate:.6g}" for rate in rates[:MOST_RATES_SHOWN]]
    return ", ".join([*shown, "..."] if len(rates) > MOST_RATES_SHOWN else shown)


def _rates(first: FirstDifference, evidence: Evidence, every: bool = True) -> tuple[list[float], list[float]] | None:
    rate = first.check.key
    if not is_learning_rate(rate):
        return None
    found: tuple[list[float], list[float]] = ([], [])
    for number, step in enumerate(evidence.steps):
        files = (evidence.reference.step(step), evidence.candidate.step(step))
        # `every`: place in the list and step must be one, or "the step before" means another step.
        if (every and number != step) or not all(rate in file for file in files):
            return None
        for kept, file in zip(found, files, strict=True):
            kept.append(float(file.read(rate)))
    return found


def _same(one: float, other: float) -> bool:
    return abs(one - other) <= ROUNDING_OF_RATE * abs(one)


def _varies(rates: list[float]) -> bool:
    return max(rates) - min(rates) > LEAST_CHANGE_OF_RATE * max(abs(rate) for rate in rates)


def _first_that(holds: Callable[[int], bool], below: int) -> int | None:
    return next((n for n in PERIODS if n < below and holds(n)), None)
