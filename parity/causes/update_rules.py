"""Reads off what an optimizer did in a step, several bugs at once: from its own slots before and after, and its weights.

A slot that is linear in the gradient tells what share of itself it kept and, with that, the gradient that it was given.
Adam's update tells its rate and its epsilon: ``m / u`` is linear in the root of v. Weights that shrink beside the update are
one more column.
"""

from typing import NamedTuple

import numpy as np

from parity.causes.evidence import Evidence
from parity.causes.optimizer_input import Input, linear_slot
from parity.causes.partly import counts, fit_partly
from parity.judge.metrics import Array, norm

EXACT = 1e-7
EMPTY = 1e-8  # of the largest: zero but for rounding
FEW = 16
ENOUGH = 0.3  # of the elements of a slot have to follow one share exactly


class Given(NamedTuple):
    """What an optimizer was given, read off a slot.

    Fields:
      slot: its name.
      kept, wanted: the share of itself that it kept in the candidate, and in the reference.
      averages: whether it takes up the rest of that share: Adam's m, not a momentum.
      inputs: the gradient of every variable that moved: the reference's rule's input, and what it must have been.
    """

    slot: str
    kept: float
    wanted: float
    averages: bool
    inputs: list[Input]


class Moved(NamedTuple):
    """How far the weights of one variable went.

    Fields:
      rate: the factor of the direction, one learning rate where the rule is right.
      other: the epsilon of Adam, or the share of the gradient beside the slot (Nesterov).
      shrunk: the share of the weights that was taken away beside the update.
      doubt: how far what the fit leaves can move an epsilon.
    """

    rate: float
    other: float
    shrunk: float
    doubt: float = 0.0


def still(evidence: Evidence, step: int) -> set[str]:
    """Returns the variables that the candidate leaves as they were, and the reference does not."""
    found = set()
    for name, one, other in evidence.pairs(step, "var"):
        before = evidence.before(step, "var", name)
        if before is not None and norm(other - before) <= 1e-12 * norm(before) < norm(one - before):
            found.add(name)
    return found


def given(evidence: Evidence, step: int) -> Given | None:
    """Returns what the candidate's optimizer was given, whatever share its slot kept; None where that is not told."""
    found = linear_slot(evidence, step)
    if found is None:
        return None
    slot, rule = found
    averages = abs(rule.keep + rule.take - 1) <= 1e-6
    left, own = still(evidence, step), evidence.applied(step)
    largest = max((norm(other) for _, other in own.values()), default=0.0)
    parts = []
    for name, _, after in evidence.pairs(step, "slot", slot):
        before = evidence.before(step, "slot", name, slot)
        if before is None or name not in own or name in left or norm(own[name][1]) <= EMPTY * largest:
            continue
        parts.append((name, before, own[name][1], after, evidence.before(step, "var", name)))
    shares = [share for part in parts if (share := _share_kept(*part[1:], averages)) is not None]
    kept = float(np.median(shares)) if shares else 1.0
    agreeing = sum(abs(share - kept) <= 10 * EXACT for share in shares)
    if 2 * agreeing <= len(parts) or (averages and abs(1 - kept) <= EXACT):
        return None
    take = 1 - kept if averages else rule.take
    inputs = [Input(name, gradient, (after - kept * before) / take) for name, before, gradient, after, _ in parts]
    return Given(slot, kept, rule.keep, averages, inputs)


def moved(evidence: Evidence, step: int, told: Given) -> dict[str, Moved] | None:
    """Returns how the weights of each variable went, by the rule of the reference's optimizer; None where it is no such.

    Args:
      evidence: the traces.
      step: its number.
      told: what the candidate's optimizer was given.
    """
    roots = {name: np.sqrt(np.abs(other)) for name, _, other in evidence.pairs(step, "slot", "v")}
    slots = {name: other for name, _, other in evidence.pairs(step, "slot", told.slot)}
    used = {each.name: each.used for each in told.inputs}
    found = {}
    for name, _, after in evidence.pairs(step, "var"):
        before = evidence.before(step, "var", name)
        if before is None or name not in used:
            continue
        move = before - after
        one = (
            _of_adam(move, slots[name], roots[name], before)
            if roots
            else _of_a_slot(move, slots[name], used[name], before)
        )
        if one is not None:
            found[name] = one
        elif move.size > FEW:
            return None
    return found or None


def _share_kept(before: Array, gradient: Array, after: Array, weight: Array | None, averages: bool) -> float | None:
    for columns in ([before, gradient], [before, gradient, weight]):
        found = fit_partly([each for each in columns if each is not None], after, EXACT)
        if found is not None and not found.limit and not found.empty:
            return found.coefficients[0]
    # Where some elements of the gradient were cut off, most of the others still tell the share, each for itself.
    for sign in (1.0, -1.0):
        part, whole = after - sign * gradient, before - (sign * gradient if averages else 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            each = (part / whole).reshape(-1)
        each = each[np.isfinite(each)]
        share = float(np.median(each)) if each.size >= FEW else np.nan
        if (np.abs(each - share) <= EXACT).mean() >= ENOUGH:
            return share
    return None


def _of_adam(move: Array, slot: Array, root: Array, weight: Array) -> Moved | None:
    # u = r m / (root + e) + s w, in all of its terms: m = (u - s w) (root + e) / r.
    found = fit_partly([move * root, move], slot, EXACT)
    if found is not None and found.coefficients[0]:
        first, second = found.coefficients
        doubt = found.residual * norm(slot) / (abs(first) * norm(move))
        return Moved(1 / first, second / first, 0.0, doubt)
    found = fit_partly([move * root, move, weight * root, weight], slot, EXACT)
    if found is None or not found.coefficients[0] or not counts(found, [2], [move, move, weight * root], slot):
        return None
    first, second, third, _ = found.coefficients
    return Moved(1 / first, second / first, -third / first)


def _of_a_slot(move: Array, slot: Array, used: Array, weight: Array) -> Moved | None:
    for columns in ([slot], [slot, used], [slot, weight], [slot, used, weight]):
        found = fit_partly(columns, move, EXACT)
        further = range(1, len(columns))
        if found is not None and not found.limit and not found.empty and counts(found, further, columns, move):
            shares = dict(zip(map(id, columns), found.coefficients, strict=True))
            return Moved(shares[id(slot)], shares.get(id(used), 0.0), shares.get(id(weight), 0.0))
    return None
