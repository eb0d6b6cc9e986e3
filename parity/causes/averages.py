"""Causes in the moving averages of the weights."""

from parity.causes.evidence import CLOSE, Evidence, common_factor, explained_together
from parity.judge.metrics import Array, norm
from parity.judge.result import Cause, FirstDifference

STILL = 1e-9  # of the way to a weight


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
    still = abs(shares[1]) <= STILL
    if still and not all(_stand_still(evidence, each) for each in evidence.steps):
        return None  # they only do where they begin as what they move to
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


def _stand_still(evidence: Evidence, step: int) -> bool:
    pairs = ((evidence.before(step, "ema", name), other) for name, _, other in evidence.pairs(step, "ema"))
    return all(before is None or norm(other - before) <= STILL * norm(before) for before, other in pairs)


def stale_average(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The averages move towards the weights before the update: they are moved too early, or from a copy."""
    if first.quantity != "ema":
        return None
    shares = {step: share for step in evidence.steps if (share := _share_of_earlier(evidence, step)) is not None}
    told = {step: share for step, share in shares.items() if abs(share) > CLOSE}
    if not told or len(told) < len(shares):
        return None
    step, share = next(iter(told.items()))
    count = len(_moves_to_earlier(evidence, step))
    return Cause(
        "stale_average",
        "the averages move towards the weights of the step before",
        f"{count} averages of the candidate move by {share:.9g} of the way to what the weights were before the update at "
        f"step {step}" + (f", and so at {len(told)} steps" if len(told) > 1 else ""),
        "move the averages after the optimizer's step",
    )


def _share_of_earlier(evidence: Evidence, step: int) -> float | None:
    """Returns how far the averages go to the weights before a step; 0 where they do not, None where that is not told.

    Averages that begin as the weights, as they do at the start, go nowhere then.
    """
    moves = _moves_to_earlier(evidence, step)
    if not moves:
        return None
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
        if start is not None and weight is not None and norm(weight - start) > 1e-6 * norm(start):
            found.append((start, weight, other, one))
    return found
