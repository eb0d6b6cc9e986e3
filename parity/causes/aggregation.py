"""Causes in how the gradients of towers or ranks are put together."""

from parity.causes.evidence import Evidence, common_factor, is_close
from parity.judge.result import Cause, FirstDifference


def sum_instead_of_mean(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """One side sums over towers or ranks what the other averages: every combined gradient is off by their number."""
    if first.quantity != "grad" or evidence.towers == 1:
        return None
    pairs = list(evidence.pairs(first.check.step, "grad"))
    factor = common_factor([(one, other) for _, one, other in pairs])
    if factor is None:
        return None
    towers = evidence.towers
    if is_close(factor, towers):
        summing, averaging, fix = "candidate", "reference", "divide by the world size, or let DDP average"
    elif is_close(factor, 1 / towers):
        summing, averaging = "reference", "candidate"
        fix = 'sum in the port too ([torch] combine = "sum"), or average in the towers and scale the learning rate'
    else:
        return None
    return Cause(
        "sum_instead_of_mean",
        f"sum instead of mean, ratio {towers}",
        f"the {summing} sums over {towers} towers where the {averaging} averages: all {len(pairs)} combined gradients "
        f"differ by the factor {max(factor, 1 / factor):.12g}, and the gradients of the single towers are the same",
        fix,
    )
