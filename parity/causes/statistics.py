"""Causes in batch norm's moving statistics."""

import numpy as np

from parity.causes.evidence import CLOSE, Evidence, common_factor, rounds_to_one, share_explained
from parity.judge.metrics import Array, norm
from parity.judge.result import Cause, FirstDifference

WHOLE = (
    1e-5  # as far as the fit tells a number of values; of thousands nearly any number lies near a whole one otherwise
)
AGREES = 1e-6  # of another statistic
STORED = 1e-6  # what is left of a small move of a statistic once the statistic is stored


def statistics_frozen(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The candidate's moving statistics stay as they were."""
    step = first.check.step
    pairs = list(evidence.pairs(step, "stat")) if first.quantity == "stat" else []
    still = []
    for name, one, other in pairs:
        before = evidence.before(step, "stat", name)
        if before is not None and norm(one - before) > 0.0 and norm(other - before) <= 1e-12 * norm(before):
            still.append(name)
    if first.name not in still:
        return None
    return Cause(
        "statistics_frozen",
        "the moving statistics never move",
        f"{len(still)} of {len(pairs)} statistics of the candidate are as they were before step {step}: {', '.join(still)}",
        "train in training mode, with a momentum; in the towers: run UPDATE_OPS",
    )


def bias_before_norm(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The moving mean is off by a multiple of a bias: the norm takes out again what the bias in front of it adds."""
    if first.quantity != "stat":
        return None
    step = first.check.step
    one, other = {name: (one, other) for name, one, other in evidence.pairs(step, "stat")}[first.name]
    for name in evidence.reference.variables:
        bias = evidence.before(step, "var", name)
        if bias is None or bias.shape != one.shape or bias.size < 3 or not np.ptp(bias) > 0.0:
            continue
        factor = common_factor([(bias, other - one)], STORED)
        if factor is not None:
            return Cause(
                "bias_missing",
                f"the bias {name} in front of a batch norm does not count as in the reference",
                f"every channel of {first.name} is off by {factor:.6g} times {name}; what comes out of the norm is the same",
                "give the layer in front of the norm its bias once, or leave it out on both sides",
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
    one, other = found[first.name]
    before = evidence.before(step, "stat", first.name)
    if before is None or one.size < 3:
        return None
    columns = np.stack([one.reshape(-1), before.reshape(-1)], axis=1)
    (of_new, of_old), *_ = np.linalg.lstsq(columns, other.reshape(-1), rcond=None)
    residual = norm(columns @ np.array([of_new, of_old]) - other.reshape(-1))
    if residual > 1e-7 * norm(other - one):
        return None
    if rounds_to_one(of_new):
        return None  # they move as far, and differ by something else
    if abs(of_new + of_old - 1) <= CLOSE:
        return Cause(
            "batch_norm_momentum",
            f"batch norm's momentum: the candidate's statistics move {of_new:.6g} times as far",
            f"every channel of {first.name} fits moving' = moving + {of_new:.6g} (reference' - moving)",
            "torch's momentum is the weight of the new value: 1 - TensorFlow's; or use torch_ddp.like_tf.BatchNorm2d",
            share_explained(first, [(of_new * one + of_old * before, other, one)]),
        )
    count = 1 / (1 - of_new) if of_new < 1 else of_new / (of_new - 1)
    if not count > 1.5 or abs(count - round(count)) > WHOLE * count:
        return None
    n = round(count)
    kept = -of_old / (of_new - 1)  # what the average keeps of itself: of_old is that times 1 - of_new
    if not 0.0 <= kept < 1.0 or not _may_be_values(n, evidence, step) or not _others_agree(first.name, found):
        return None
    whose = "biased variance (n)" if of_new < 1 else "unbiased variance (n - 1)"
    return Cause(
        "batch_norm_variance",
        f"batch norm's moving variance takes the {whose}",
        f"every channel of {first.name} is off by the factor {of_new:.9g} = {n - 1}/{n} or its inverse, for n = {n} values "
        "per channel, while the normalised activations are the same",
        "fused batch norm moves by the unbiased variance, unfused by the biased: torch_ddp.like_tf.BatchNorm2d(fused=…)",
    )


def _may_be_values(count: int, evidence: Evidence, step: int) -> bool:
    """Whether a channel may have so many values: every example brings as many, of whatever axis of what is fed."""
    tower = next(iter(evidence.tower_names(step, "feed")), None)
    feeds = [one for _, one, _ in evidence.pairs(step, "feed", "", tower)] if tower is not None else []
    lengths = {length for feed in feeds for length in feed.shape if length > 1}
    return not lengths or any(count % length == 0 for length in lengths)


def _others_agree(name: str, found: dict[str, tuple[Array, Array]]) -> bool:
    """Whether the other statistics of the layer, its moving mean, are the same: a variance alone is counted otherwise."""
    layer = name.rpartition("/")[0]
    others = [pair for each, pair in found.items() if each != name and each.rpartition("/")[0] == layer != ""]
    return all(norm(other - one) <= AGREES * norm(one) for one, other in others)
