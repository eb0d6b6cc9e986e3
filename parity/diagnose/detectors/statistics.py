"""Causes in batch norm's moving statistics, in averages of the weights, and in what is computed after training."""

import numpy as np

from parity.diagnose.agreement import (
    CLOSE,
    common_factor,
    explained_together,
    rounds_to_one,
    same_values,
    share_explained,
)
from parity.diagnose.catalogue import build_cause
from parity.diagnose.evidence import Evidence
from parity.judge.metrics import is_finite, norm
from parity.judge.result import Cause, FirstDifference
from parity.trace import format_evaluated, parse_evaluated
from parity.trace.arrays import Array

# Causes in batch norm's moving statistics.

# How far from a whole number a count of values n may be, relative: of n / (n - 1) = 1 + 1 / n the fit tells n times
# fewer digits of n. Of thousands nearly any number lies near a whole one otherwise.
FROM_WHOLE_COUNT = 1e-5
CHANNELS_OF_TWO_NUMBERS = 3  # that tell two numbers, and whether a third follows them
CLOSE_STATISTIC = 1e-6  # of another statistic: n for n - 1 moves a variance by 5e-6 of it and more, rounding by 1e-15
# Of a difference of statistics: a move of 1e-10 of a statistic, once that is stored, keeps six digits (u64 over 1e-10).
STORED = 1e-6


def statistics_frozen(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The candidate's moving statistics stay as they were."""
    step = first.check.step
    pairs = list(evidence.pairs(step, "stat")) if first.quantity == "stat" else []
    still = []
    for name, one, other in pairs:
        before = evidence.before(step, "stat", name)
        # The reference moves and the candidate does not, to 1e-12 of the statistic: 9,000 roundings of it.
        if before is not None and norm(one - before) > 0.0 and norm(other - before) <= 1e-12 * norm(before):
            still.append(name)
    if first.name not in still:
        return None
    return build_cause(
        "statistics_frozen",
        evidence=f"{len(still)} of {len(pairs)} statistics of the candidate are as they were before step {step}: "
        f"{', '.join(still)}",
    )


def bias_before_norm(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The moving mean is off by a multiple of a bias: the norm takes out again what the bias in front of it adds."""
    if first.quantity != "stat":
        return None
    step = first.check.step
    pair = next(((one, other) for name, one, other in evidence.pairs(step, "stat") if name == first.name), None)
    if pair is None:
        return None  # the candidate has none, or one that is not finite
    one, other = pair
    for name in evidence.reference.variables:
        bias = evidence.before(step, "var", name)
        # At least three channels, not all of one number: to a constant, or to two numbers, anything is proportional.
        if bias is None or bias.shape != one.shape or bias.size < 3 or not np.ptp(bias) > 0.0:
            continue
        # moving' = m moving + (1 - m) mean(x + b): without the bias the mean, and so the moving mean, is off by (1 - m)
        # b.
        factor = common_factor([(bias, other - one)], STORED)
        if factor is not None:
            return build_cause(
                "bias_missing",
                "before a norm",
                evidence=f"every channel of {first.name} is off by {factor:.6g} times {name}; what comes out of "
                "the norm is the same",
                name=name,
            )
    return None


def batch_norm_statistics(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The moving statistics move by another variance (n against n - 1) or with another momentum.

    Both are linear: ``moving' = (1 - d) moving + d batch``. Fitting the candidate's by the reference's and the state before
    over the channels gives the two coefficients, and with them what differs.
    """
    if first.quantity != "stat":
        return None
    step = first.check.step
    found = {name: (one, other) for name, one, other in evidence.pairs(step, "stat")}
    if first.name not in found:
        return None
    # Two numbers are not told by fewer than three channels: then by those of the other norms, which move alike.
    alone = found[first.name][0].size >= CHANNELS_OF_TWO_NUMBERS
    part = first.name.rpartition("/")[2]
    names = [first.name] if alone else [name for name in found if name.rpartition("/")[2] == part]
    given = [(*found[name], evidence.before(step, "stat", name)) for name in names]
    triples = [each for each in given if all(value is not None and is_finite(value) for value in each)]
    if len(triples) < len(names):
        return None
    # (channels,), float64, of both sides after the step, and of the state before it.
    one, other, before = (
        np.concatenate([np.ravel(value) for value in values]) for values in zip(*triples, strict=True)
    )
    if one.size < CHANNELS_OF_TWO_NUMBERS:
        return None
    # (channels, 2): two unknowns, so three channels at least.
    columns = np.stack([one, before], axis=1)
    # other = a one + b before. With one = m before + (1 - m) batch, another momentum gives a + b = 1; a variance by n -
    # 1 for n multiplies the batch's part alone, and a + b is not 1.
    (of_new, of_old), *_ = np.linalg.lstsq(columns, other, rcond=None)
    residual = norm(columns @ np.array([of_new, of_old]) - other)
    # Of the difference, not of the statistic: statistics hardly move in a step, and everything is near to them.
    if residual > 1e-7 * norm(other - one):
        return None
    if rounds_to_one(of_new):
        return None  # they move as far, and differ by something else
    if abs(of_new + of_old - 1) <= CLOSE:
        others = "" if alone else f", as of {len(names) - 1} more,"
        fits = f"{first.name}{others} fits moving' = moving + {of_new:.6g} (reference' - moving)"
        share = share_explained(first, [(of_new * one + of_old * before, other, one)])
        # No norm has a moving matrix: it is a copy that follows weights, as a target network does.
        if found[first.name][0].ndim > 1:
            return build_cause("average_decay", "copy", evidence=f"all of {fits}", explains=share, of_new=of_new)
        return build_cause("batch_norm_momentum", evidence=f"every channel of {fits}", explains=share, of_new=of_new)
    if not alone:
        return None  # a count of values is each norm's own
    # a = (n - 1) / n, or n / (n - 1) the other way round: solved for n.
    count = 1 / (1 - of_new) if of_new < 1 else of_new / (of_new - 1)
    if not count > 1.5 or abs(count - round(count)) > FROM_WHOLE_COUNT * count:
        return None
    n = round(count)
    kept = -of_old / (of_new - 1)  # what the average keeps of itself: of_old is that times 1 - of_new
    # b = m (1 - a), so that what the average keeps of itself, m, is b / (1 - a), and has to be a share.
    if not 0.0 <= kept < 1.0 or not _may_be_values(n, evidence, step) or not _others_agree(first.name, found):
        return None
    whose = "biased variance (n)" if of_new < 1 else "unbiased variance (n - 1)"
    return build_cause(
        "batch_norm_variance",
        evidence=f"every channel of {first.name} is off by the factor {of_new:.9g} = {n - 1}/{n} or its inverse, "
        f"for n = {n} values "
        "per channel, while the normalised activations are the same",
        whose=whose,
    )


def _may_be_values(count: int, evidence: Evidence, step: int) -> bool:
    """Whether a channel may have so many values: every example brings as many, of whatever axis of what is fed."""
    tower = next(iter(evidence.tower_names(step, "feed")), None)
    feeds = [one for _, one, _ in evidence.pairs(step, "feed", "", tower)] if tower is not None else []
    # Lengths of all axes of what is fed: a channel sees examples times pixels, or times steps.
    lengths = {length for feed in feeds for length in feed.shape if length > 1}
    return not lengths or any(count % length == 0 for length in lengths)


def _others_agree(name: str, found: dict[str, tuple[Array, Array]]) -> bool:
    """Whether the other statistics of the layer, its moving mean, are the same: a variance alone is counted otherwise."""
    layer = name.rpartition("/")[0]
    # Of the same scope: moving_mean beside moving_variance, whose means are counted by no n.
    others = [pair for each, pair in found.items() if each != name and each.rpartition("/")[0] == layer != ""]
    return all(norm(other - one) <= CLOSE_STATISTIC * norm(one) for one, other in others)


# Causes in the moving averages of the weights.

STILL = 1e-9  # of the way to a weight


def average_decay(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The averages move by another decay: ``average' = average + (1 - decay) (weight - average)``."""
    if first.quantity != "ema":
        return None
    step = first.check.step
    # After the step: the average moves towards the weight that the update has made, on each side its own.
    weights = {name: (one, other) for name, one, other in evidence.pairs(step, "var")}
    moves = []
    for name, one, other in evidence.pairs(step, "ema"):
        before = evidence.before(step, "ema", name)
        if before is None or name not in weights:
            return None
        # Where average and weight begin alike the way is 0, and any share of it is 0 too.
        if norm(weights[name][0] - before) > 1e-6 * norm(before):
            moves.append((before, weights[name], (one, other)))
    shares = [
        # average' - average = (1 - decay)(weight' - average), on each side by itself: one share over all variables.
        common_factor([(weight[side] - before, after[side] - before) for before, weight, after in moves], 1e-7)
        for side in (0, 1)
    ]
    if shares[0] is None or shares[1] is None:
        return None
    # 1e-6: the share is known to 1e-7 of itself, so that less is no other decay.
    if abs(shares[1] - shares[0]) <= 1e-6 * abs(shares[0]):
        return None  # by the same decay, to what their fit can tell
    wanted, got = 1 - shares[0], 1 - shares[1]
    still = abs(shares[1]) <= STILL
    if still and not all(_stand_still(evidence, each) for each in evidence.steps):
        return None  # they only do where they begin as what they move to
    return build_cause(
        "average_decay",
        "still" if still else "other",
        evidence=f"average' = {got:.9g} average + {1 - got:.9g} weight fits all {len(moves)} averages at step "
        f"{step}; "
        f"the reference's keep {wanted:.9g}",
        got=got,
        wanted=wanted,
    )


def _stand_still(evidence: Evidence, step: int) -> bool:
    pairs = ((evidence.before(step, "ema", name), other) for name, _, other in evidence.pairs(step, "ema"))
    return all(before is None or norm(other - before) <= STILL * norm(before) for before, other in pairs)


def stale_average(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The averages move towards the weights before the update: they are moved too early, or from a copy."""
    if first.quantity != "ema":
        return None
    shares = {step: share for step in evidence.steps if (share := _share_of_earlier(evidence, step)) is not None}
    # All steps that tell anything must say so: at one step a share of the old way may be chance.
    told = {step: share for step, share in shares.items() if abs(share) > CLOSE}
    if not told or len(told) < len(shares):
        return None
    step, share = next(iter(told.items()))
    count = len(_moves_to_earlier(evidence, step))
    return build_cause(
        "stale_average",
        evidence=f"{count} averages of the candidate move by {share:.9g} of the way to what the weights were "
        "before the update at "
        f"step {step}" + (f", and so at {len(told)} steps" if len(told) > 1 else ""),
    )


def _share_of_earlier(evidence: Evidence, step: int) -> float | None:
    """Returns how far the averages go to the weights before a step; 0 where they do not, None where that is not told.

    Averages that begin as the weights, as they do at the start, go nowhere then.
    """
    moves = _moves_to_earlier(evidence, step)
    if not moves:
        return None
    # A way may be a millionth of the average, and storing rounds that by 1e-10 of itself: 100 CLOSE lies above.
    share = common_factor([(weight - start, other - start) for start, weight, other, _ in moves], 100 * CLOSE)
    if share is None:
        return 0.0
    # Where the weights hardly move, averages move to the old ones and to the new ones alike.
    made = ((start + share * (weight - start), other, one) for start, weight, other, one in moves)
    return share if explained_together(made) else 0.0


def _moves_to_earlier(evidence: Evidence, step: int) -> list[tuple[Array, Array, Array, Array]]:
    """Returns average and weight before a step, and both sides' averages after it, of those that are apart before."""
    found = []
    for name, one, other in evidence.pairs(step, "ema"):
        start, weight = evidence.before(step, "ema", name), evidence.before(step, "var", name)
        # Told apart by a millionth of the average: less is what storing it rounds.
        if start is not None and weight is not None and norm(weight - start) > 1e-6 * norm(start):
            found.append((start, weight, other, one))
    return found


# Causes in what is computed after training.


def averages_not_used(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The candidate's evaluation with the averages is its evaluation with the weights."""
    if first.quantity != "eval" or not parse_evaluated(first.name).averages:
        return None
    found = {name: (one, other) for name, one, other in evidence.pairs(first.check.step, "eval")}
    averaged = {name: parse_evaluated(name) for name in found if parse_evaluated(name).averages}
    # By name: an evaluation with the averages, and the same output with the weights.
    plain = {name: format_evaluated(parts._replace(averages=False)) for name, parts in averaged.items()}
    pairs = [(found[name], found[other]) for name, other in plain.items() if other in found]
    # Outputs that hang on no average, such as a batch handed through, are alike on both sides and say nothing.
    telling = [(one, other) for one, other in pairs if not same_values(other[0], one[0], evidence.close)]
    # The candidate's two evaluations are one, output for output, while the reference's are not: what is evaluated with
    # the averages never has them.
    if not telling or not all(same_values(other[1], one[1], evidence.close) for one, other in telling):
        return None
    return build_cause(
        "averages_not_used",
        evidence=f"with the averages in place of the weights, {len(telling)} outputs of the candidate are what "
        "they are with the "
        "weights themselves; the reference's change",
    )
