"""Causes in the moving averages of the weights."""

from parity.causes.evidence import CLOSE, Evidence, common_factor, explained_together
from parity.judge.numbers import norm
from parity.judge.result import Cause, FirstDifference


def average_decay(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The averages move by another decay: ``average' = average + (1 - decay) (weight - average)``."""
    if first.quantity != "ema":
        return None
    step = first.check.step
    weights = {name: (one, other) for name, one, other in evidence.pairs(step, "var")}
    moves = []
    for name, one, other in evidence.pairs(step, "ema"):
        before = evidence.before(step, "ema", name)
        if before is None or name not in weights:
            return None
        if norm(weights[name][0] - before) > 1e-6 * norm(before):
            moves.append((before, weights[name], (one, other)))
    shares = [
        common_factor([(weight[side] - before, after[side] - before) for before, weight, after in moves], 1e-7)
        for side in (0, 1)
    ]
    if shares[0] is None or shares[1] is None:
        return None
    if abs(shares[1] - shares[0]) <= 1e-6 * abs(shares[0]):
        return None  # by the same decay, to what their fit can tell
    wanted, got = 1 - shares[0], 1 - shares[1]
    still = abs(shares[1]) <= 1e-9
    return Cause(
        "average_decay",
        "the averages of the weights stay as they were"
        if still
        else f"the averages of the weights decay by {got:.6g} where the reference's decay by {wanted:.6g}",
        f"average' = {got:.9g} average + {1 - got:.9g} weight fits all {len(moves)} averages at step "
        f"{step}; "
        f"the reference's keep {wanted:.9g}",
        "give ExponentialMovingAverage the graph's decay, with num_updates where the graph passes it, and update it once "
        "after every step",
    )


def stale_average(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The averages move towards the weights before the update: they are moved too early, or from a copy."""
    if first.quantity != "ema":
        return None
    step, moves, made = first.check.step, [], []
    for name, one, other in evidence.pairs(step, "ema"):
        start, weight = evidence.before(step, "ema", name), evidence.before(step, "var", name)
        if start is not None and weight is not None and norm(weight - start) > 1e-6 * norm(start):
            moves.append((weight - start, other - start))
            made.append((start, weight, other, one))
    share = common_factor(moves, 100 * CLOSE)
    if share is None or not abs(share) > CLOSE:
        return None
    if not explained_together((start + share * (weight - start), other, one) for start, weight, other, one in made):
        return None  # where the weights hardly move, averages move to the old ones and to the new ones alike
    return Cause(
        "stale_average",
        "the averages move towards the weights of the step before",
        f"{len(moves)} averages of the candidate move by {share:.9g} of the way to what the weights were before the update",
        "move the averages after the optimizer's step",
    )
