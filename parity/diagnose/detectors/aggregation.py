"""Causes in how the gradients of towers or ranks are put together."""

from dataclasses import replace

import numpy as np

from parity.diagnose.agreement import (
    CLOSE,
    EMPTY_GRADIENT,
    alike,
    common_factor,
    explained_together,
    fit,
    is_close,
    rounds_to_one,
    same_values,
    share_explained,
    told_factor,
)
from parity.diagnose.catalogue import build_cause
from parity.diagnose.detectors.clipping_place import clipped_elsewhere
from parity.diagnose.detectors.single_towers import by_elements
from parity.diagnose.evidence import Evidence
from parity.judge.metrics import norm
from parity.judge.result import Cause, FirstDifference
from parity.trace import LOSS_SCALE
from parity.trace.arrays import Array


def not_shared(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The ranks end a step with different weights: a gradient, or an update, stays on its rank."""
    if evidence.candidate.facts.get("ranks_agree", True) or first.quantity not in ("tower_grad", "grad", "slot", "var"):
        return None
    pairs = list(evidence.pairs(first.check.step, "grad"))
    if (
        first.quantity in ("slot", "var")
        and pairs
        and all(same_values(one, other, evidence.close) for _, one, other in pairs)
    ):
        return build_cause(
            "not_shared",
            "updates",
            evidence=f"after a step the ranks hold different weights, though all {len(pairs)} combined gradients are the "
            f"reference's; what is shown of {first.check.key} is rank 0's own",
        )
    return build_cause(
        "not_shared",
        "gradients",
        evidence=f"after a step the ranks hold different weights; what is shown of {first.check.key} is rank 0's own",
    )


def sum_instead_of_mean(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """One side sums over towers or ranks what the other averages: every combined gradient is off by their number."""
    if first.quantity != "grad" or evidence.towers == 1:
        return None
    # Mean over n towers against sum: n g = sum_t g_t, g = mean_t g_t, so the ratio is n or 1/n for every variable.
    pairs = list(evidence.pairs(first.check.step, "grad"))
    factor = common_factor([(one, other) for _, one, other in pairs], evidence.close)
    if factor is None:
        return _sum_of_some(first, evidence, pairs)
    towers, sums = evidence.towers, evidence.reference.facts.get("combine") == "sum"
    # Which side sums, the reference's facts say: the ratio n alone could also be a loss n times too large, which would
    # show in the towers' own gradients, and so before this quantity.
    if is_close(factor, towers, evidence.close) and not sums:
        summing, averaging = "candidate", "reference"
    elif is_close(factor, 1 / towers, evidence.close) and sums:
        summing, averaging = "reference", "candidate"
    else:
        return None
    return build_cause(
        "sum_instead_of_mean",
        summing,
        evidence=f"the {summing} sums over {towers} towers where the {averaging} averages: all {len(pairs)} "
        "combined gradients "
        f"differ by the factor {max(factor, 1 / factor):.12g}, and the gradients of the single towers are the same",
        explains=share_explained(first, [(factor * one, other, one) for _, one, other in pairs]),
        towers=towers,
    )


def _sum_of_some(first: FirstDifference, evidence: Evidence, pairs: list[tuple[str, Array, Array]]) -> Cause | None:
    """Some gradients alone are off by the number of towers: those that a script combines otherwise than the rest."""
    wrong = [each for each in pairs if not same_values(each[1], each[2], evidence.close)]
    factor = common_factor([(one, other) for _, one, other in wrong], evidence.close)
    if factor is None or first.name not in [name for name, _, _ in wrong]:
        return None
    # The towers' own gradients have to be there and the same: then what is left is how they are combined.
    step, towers, names = first.check.step, evidence.towers, [name for name, _, _ in wrong]
    of_towers = [
        {
            name: same_values(one, other, evidence.close)
            for name, one, other in evidence.pairs(step, "tower_grad", "", tower)
        }
        for tower in evidence.tower_names(step, "tower_grad")
    ]
    if not of_towers or not all(own.get(name, False) for own in of_towers for name in names):
        return None
    if not (is_close(factor, towers, evidence.close) or is_close(factor, 1 / towers, evidence.close)):
        return None
    summing, averaging = ("candidate", "reference") if factor > 1 else ("reference", "candidate")
    return build_cause(
        "sum_instead_of_mean",
        summing,
        evidence=f"the {summing} sums the gradient of {', '.join(names)} over {towers} towers where the {averaging} "
        f"averages: it differs by the factor {max(factor, 1 / factor):.12g}; the other {len(pairs) - len(wrong)} combined "
        "gradients, and those of the single towers, are the same",
        explains=share_explained(first, [(factor * one, other, one) for _, one, other in wrong]),
        towers=towers,
    )


def some_towers(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """Towers do not count alike: one alone, one not at all, one more than the others."""
    if first.quantity not in ("tower_grad", "grad") or evidence.towers == 1:
        return None
    # In a tower's own gradients each tower has a factor; once combined its share can only be solved for.
    found = _factors_of_towers if first.quantity == "tower_grad" else _weights_of_towers
    weights = found(first.check.step, evidence)
    if weights is None and first.quantity == "grad":
        return by_elements(first, evidence)
    if weights is None or follow_other_losses(weights, evidence, first.check.step):
        return None
    # All alike: then it is one factor of everything, which `gradient_factor` names with what it usually stands for.
    if max(weights) - min(weights) <= evidence.close * max(abs(each) for each in weights):
        return None
    # Clipping by itself makes each rank count by a number of its own.
    return None if clipped_elsewhere(first, evidence) else cause_of_towers(weights, evidence.close)


def follow_other_losses(weights: list[float], evidence: Evidence, step: int) -> bool:
    """Returns whether what the towers count may follow from their losses: all of these differ, and each tower counts.

    Another denominator makes of every tower's loss, and so of its gradients, another multiple.

    Args:
      weights: what the gradients of the towers, in their order, count by.
      evidence: the traces.
      step: its number.
    """
    # A tower that does not count at all is no other denominator: that would have to be infinite.
    if any(abs(weight) <= evidence.close for weight in weights):
        return False
    towers = evidence.tower_names(step, "loss")
    losses = [pair for tower in towers for _, *pair in evidence.pairs(step, "loss", "", tower)]
    return bool(losses) and all(abs(other - one) > evidence.close_losses * abs(one) for one, other in losses)


def cause_of_towers(weights: list[float], close: float) -> Cause:
    """Returns what it is called that the gradients of the towers, in their order, count by these weights."""
    # close is relative to 1, since a right tower counts once.
    silent = [tower for tower, weight in enumerate(weights) if abs(weight) <= close]
    variant = "one" if len(silent) == len(weights) - 1 else "left out" if silent else "unequal"
    shown = ", ".join("0" if tower in silent else f"{weight:.6g}" for tower, weight in enumerate(weights))
    return build_cause(
        "some_towers",
        variant,
        evidence=f"the candidate's gradients are the reference's towers' times {shown}, for every variable",
        tower=next((tower for tower in range(len(weights)) if tower not in silent), None),
        towers=", ".join(map(str, silent)),
    )


def gradient_factor(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """Gradients are off by a factor: all of them, or those of some variables."""
    if first.quantity not in ("tower_grad", "grad"):
        return None
    step = first.check.step
    # Combined gradients are in no tower, so that one pass over them stands for the loop over towers.
    towers = evidence.tower_names(step, first.quantity) if first.quantity == "tower_grad" else [""]
    factors = _factors_of_variables(evidence, step, first.quantity, towers)
    if factors is None:
        return None
    wrong = {name: factor for name, factor in factors.items() if abs(factor - 1) > evidence.close}
    values = list(wrong.values())
    # Relative for factors far from 0, absolute for those near it: what should be zero has no relative precision.
    if not wrong or any(
        not is_close(value, values[0], evidence.close) and abs(value - values[0]) > evidence.close for value in values
    ):
        return None
    factor = values[0]
    if rounds_to_one(factor):
        return None
    where = "every variable" if len(wrong) == len(factors) else ", ".join(wrong)
    place = "in every tower" if first.quantity == "tower_grad" else "once combined"
    evidence_text = f"the candidate's gradient of {where} is {factor:.9g} times the reference's, {place}"
    whole = len(wrong) == len(factors)
    # The title says what such a factor usually comes from; the proof is the same for all of them.
    cause = cause_of_factor(
        factor, where, whole, evidence_text, evidence.towers, evidence.close, has_scaler(evidence, step)
    )
    differing = [
        (factor * one, other, one)
        for tower in towers
        for name, one, other in evidence.pairs(step, first.quantity, "", tower)
        if name in wrong
    ]
    return replace(cause, explains=share_explained(first, differing))


def cause_of_factor(
    factor: float, where: str, whole: bool, text: str, towers: int, close: float, scaled: bool = False
) -> Cause:
    """Returns what a factor of gradients is called.

    Args:
      factor: the candidate's over the reference's.
      where: the variables that have it, in words.
      whole: whether these are all.
      text: the evidence.
      towers: their number.
      close: how exactly the factor is known, relative.
      scaled: whether a side scales its losses.
    """
    # First, since 0 is near none of the factors below and has no logarithm.
    if abs(factor) <= close:
        return build_cause(
            "zero_gradient",
            evidence=f"the candidate's gradient of {where} is zero where the reference's is not",
            where=where,
        )
    if is_close(factor, -1.0, close):
        return build_cause("sign", "gradient", evidence=text)
    # A loss scale reaches all gradients of a backward pass: a power of two of some variables alone is none.
    power_of_two = whole and is_power_of_two(factor, close)
    if power_of_two and scaled:
        return loss_scale(factor, text)
    # 1 / towers of the tower's own gradients: every rank divides its loss by the world size, and DDP averages again.
    of_towers = is_close(factor, 1 / towers, close)
    variant = "power of two" if power_of_two else "towers" if of_towers else "gradients"
    return build_cause("gradient_factor", variant, evidence=text, factor=factor)


def loss_factor(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The loss of every tower is off by one factor: reduction, loss scale, or something else."""
    if first.quantity != "loss":
        return None
    step = first.check.step
    pairs = [
        (one, other)
        for tower in evidence.tower_names(step, "loss")
        for _, one, other in evidence.pairs(step, "loss", "", tower)
    ]
    # At least two losses that are not alike, or any change at all would be some factor (`told_factor`).
    factor = told_factor(pairs, evidence.close_losses)
    if factor is None:
        return None
    text = f"every tower's loss is {factor:.9g} times the reference's"
    # Before the power of two: a batch of 64 examples is one, and a sum in place of a mean is the commoner bug.
    reduced = other_reduction(factor, text, evidence, step)
    if reduced is not None:
        return reduced
    power_of_two = is_power_of_two(factor, evidence.close_losses)
    if power_of_two and has_scaler(evidence, step):
        return loss_scale(factor, text)
    variant = "loss, power of two" if power_of_two else "loss"
    share = share_explained(first, [(factor * one, other, one) for one, other in pairs])
    return build_cause("gradient_factor", variant, evidence=text, explains=share, factor=factor)


def other_reduction(factor: float, text: str, evidence: Evidence, step: int) -> Cause | None:
    """Returns the cause where a factor of the loss is a number of examples, or one over it: a sum for a mean."""
    examples = _examples(evidence, step)
    # d(sum)/d(mean) = count. A shard's count shows where a tower reduces by itself, the batch's where the sum is
    # divided by all examples before or behind it.
    for count, what in ((examples, "examples of a shard"), (examples * evidence.towers, "examples of a batch")):
        # 1 says nothing: one example's sum is its mean.
        if count > 1 and (
            is_close(factor, count, evidence.close_losses) or is_close(factor, 1 / count, evidence.close_losses)
        ):
            kind = "a sum" if factor > 1 else "a mean"
            return build_cause(
                "loss_reduction",
                "count",
                evidence=f"{text}: the number of {what} is {count}",
                what=what,
                kind=kind,
                other="a mean" if factor > 1 else "a sum",
            )
    return None


def loss_scale(factor: float, evidence: str) -> Cause:
    """Returns the cause of a loss scale that is left in losses or gradients.

    Args:
      factor: by which they are off.
      evidence: how that is known.
    """
    # Above 1 on either side: a scale that is left in the reference's losses divides the ratio instead of multiplying
    # it.
    return build_cause("loss_scale", evidence=f"{evidence}, a power of two", scale=max(factor, 1 / factor))


def has_scaler(evidence: Evidence, step: int) -> bool:
    """Returns whether a side scales its losses, as far as its facts or its state say."""
    # A plan of a case has it before any step; a recorded script's trace only has the counter.
    planned = (trace.facts.get("plan", {}).get("loss_scale") for trace in (evidence.reference, evidence.candidate))
    files = evidence.reference.step(step), evidence.candidate.step(step)
    return any(planned) or any(LOSS_SCALE in file for file in files)


def is_power_of_two(factor: float, close: float = CLOSE) -> bool:
    """Returns whether a factor, or one over it, is a power of two as loss scales are: 64 or more."""
    # A negative factor is no scale; log2 of 1 is 0, which the test below refuses.
    scale = max(factor, 1 / factor) if factor > 0 else 1.0
    power = round(float(np.log2(scale)))
    # From 2^6 on: 2, 4, ..., 32 are as often a number of towers or ranks. close: a loss scale is exact in any float.
    return power >= 6 and is_close(scale, 2.0**power, close)


def _examples(evidence: Evidence, step: int) -> int:
    tower = next(iter(evidence.tower_names(step, "feed")), None)  # none where a trace holds no feeds
    feeds = [one for _, one, _ in evidence.pairs(step, "feed", "", tower)] if tower else []
    # The longest first axis of any feed of the first tower: weights of a loss or scalars are shorter or have none.
    return max((len(feed) for feed in feeds if feed.ndim), default=0)


def _factors_of_variables(evidence: Evidence, step: int, quantity: str, towers: list[str]) -> dict[str, float] | None:
    found: dict[str, list[tuple[Array, Array]]] = {}
    for tower in towers:
        for name, one, other in evidence.pairs(step, quantity, "", tower):
            found.setdefault(name, []).append((one, other))
    largest = max((norm(one) for pairs in found.values() for one, _ in pairs), default=0.0)
    factors, made = {}, []
    # `factors` holds one number for each variable so far, the same in all towers; `made` what they make of the
    # reference's.
    for name, pairs in found.items():
        if max(norm(one) for one, _ in pairs) <= EMPTY_GRADIENT * largest:
            continue  # zero but for rounding
        factor = 0.0 if not any(other.any() for _, other in pairs) else common_factor(pairs, evidence.close)
        # Of a gradient that is one number in all places any other such number is a multiple.
        if factor is None or (factor and abs(factor - 1) > evidence.close and alike([one for one, _ in pairs])):
            return None
        factors[name] = factor
        made += [(factor * one, other, one) for one, other in pairs]
    return factors if explained_together(made) else None


def _factors_of_towers(step: int, evidence: Evidence) -> list[float] | None:
    factors, made = [], []
    for tower in evidence.tower_names(step, "tower_grad"):
        pairs = [(one, other) for _, one, other in evidence.pairs(step, "tower_grad", "", tower)]
        if not pairs:
            factors.append(0.0)  # the candidate's tower has no gradient at all
            continue
        # None where the candidate's gradient of the tower is no multiple of the reference's: another direction is
        # another cause.
        factor = 0.0 if not any(other.any() for _, other in pairs) else common_factor(pairs, evidence.close)
        if factor is None or alike([one for one, _ in pairs]):
            return None
        factors.append(factor)
        made += [(factor * one, other, one) for one, other in pairs]
    return factors if explained_together(made) else None


def _weights_of_towers(step: int, evidence: Evidence) -> list[float] | None:
    own = {
        tower: {name: one for name, one, _ in evidence.pairs(step, "tower_grad", "", tower)}
        for tower in evidence.tower_names(step, "tower_grad")
    }
    pairs = list(evidence.pairs(step, "grad"))
    if len(own) < 2 or any(name not in found for name, _, _ in pairs for found in own.values()):
        return None
    # combined_n = sum_t w_t g_nt on each side, w_t one number over all variables n: how the side weighs tower t.
    columns = [[found[name] for found in own.values()] for name, _, _ in pairs]
    expected, got = fit(columns, [one for _, one, _ in pairs]), fit(columns, [other for _, _, other in pairs])
    # The tolerance of RESIDUAL_OF_TOWER_GRADIENT of gradient_model.py, for the same reason: nothing but sums of
    # recorded gradients lies between.
    if expected is None or got is None or max(expected.residual, got.residual) > 1e-8:
        return None
    # Towers that see much the same have much the same gradients: noise moves their shares far, and is then not
    # explained.
    shares = np.array(got.coefficients)
    made = [
        # (towers,) times (towers, *variable): the combination that the fitted shares make of the reference's own
        # gradients.
        (np.tensordot(shares, np.stack(each), 1), other, one)
        for each, (_, one, other) in zip(columns, pairs, strict=True)
    ]
    if not explained_together(made):
        return None
    # Over what the reference weighs a tower by, so that 1 is right under a mean, a sum and any weighting of shards.
    return [each / wanted for each, wanted in zip(got.coefficients, expected.coefficients, strict=True)]
