"""Clipping at another place: each rank's own gradients on one side, the combined ones on the other."""

import math
from itertools import product
from typing import NamedTuple

import numpy as np

from parity.diagnose.agreement import explained_together, fit, share_explained
from parity.diagnose.catalogue import build_cause
from parity.diagnose.detectors.clipping import OF_TORCH
from parity.diagnose.evidence import Evidence
from parity.judge.metrics import norm
from parity.judge.result import Cause, FirstDifference
from parity.trace.arrays import Array

# Of what towers count by, and of limits, relative: nothing but sums of recorded gradients lies between, as for
# `some_towers`.
CLOSE_COUNT = 1e-8
CLOSE_LIMIT = 1e-6  # of the limits of both sides, one of which may be a float32
TO_THE_NORM = (0.0, OF_TORCH)  # what is added where it is divided by: by TensorFlow, and by torch


class Place(NamedTuple):
    """Where a side clips by global norm.

    Fields:
      each: whether each tower's own gradients are clipped, rather than the combined ones; None where nothing is.
      limits: to which norm, for each of `TO_THE_NORM` by which the numbers fit.
      cut: how many gradients were beyond it.
    """

    each: bool | None
    limits: tuple[float, ...] = ()
    cut: int = 0


def clipped_elsewhere(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """One side clips each tower's gradients by their global norm before they are combined, the other one behind, or not."""
    if first.quantity not in ("grad", "clip") or evidence.towers == 1:
        return None
    step = first.check.step
    own = [
        {name: one for name, one, _ in evidence.pairs(step, "tower_grad", "", tower)}
        for tower in evidence.tower_names(step, "tower_grad")
    ]
    pairs = list(evidence.pairs(step, first.quantity))
    if len(own) < 2 or any(name not in found for name, _, _ in pairs for found in own):
        return None
    columns = [[found[name] for found in own] for name, _, _ in pairs]
    fits = [fit(columns, [one for _, one, _ in pairs]), fit(columns, [other for _, _, other in pairs])]
    if fits[0] is None or fits[1] is None or max(each.residual for each in fits if each) > CLOSE_COUNT:
        return None
    # What each tower counts by on a side, over what it counts by where nothing is clipped.
    whole = 1.0 if evidence.reference.facts.get("combine") == "sum" else 1 / len(own)
    shares = [[share / whole for share in each.coefficients] for each in fits if each]
    norms = [math.hypot(*(norm(each[tower]) for each in columns)) for tower in range(len(own))]
    combined = whole * math.hypot(*(norm(np.sum(each, axis=0)) for each in columns))
    reference, candidate = (place_of(each, norms, combined) for each in shares)
    if reference is None or candidate is None or not are_distinct(reference, candidate):
        return None
    made = [_combined(fits[1].coefficients, each, pair) for each, pair in zip(columns, pairs, strict=True)]
    if not explained_together(made):
        return None
    limit = (candidate.limits or reference.limits)[0]
    counted = [", ".join(f"{share * whole:.6g}" for share in each) for each in shares]
    return build_cause(
        "clipping",
        "place",
        evidence=f"the candidate applies the towers' own gradients, the same on both sides, times {counted[1]}, "
        f"the reference times {counted[0]}: that is their global norms, or the combined one's, cut off at {limit:.6g}",
        explains=share_explained(first, made),
        candidate=_words(candidate, first.quantity),
        reference=_words(reference, first.quantity),
    )


def place_of(shares: list[float], norms: list[float], combined: float) -> Place | None:
    """Returns where towers that count by these shares were clipped; None where it is at neither place.

    Args:
      shares: of the towers, 1 where nothing is clipped.
      norms: of their gradients, all variables together.
      combined: that of the combined gradients.
    """
    if all(abs(share - 1) <= CLOSE_COUNT for share in shares):
        return Place(None)
    if min(shares) <= 0 or max(shares) > 1 + CLOSE_COUNT:
        return None
    # c / (|g| + added) of each tower that is beyond c; one share of all is that of the combined gradients.
    each = max(shares) - min(shares) > CLOSE_COUNT * max(shares)
    sizes = norms if each else [combined]
    cut = [(share, size) for share, size in zip(shares, sizes, strict=False) if share < 1 - CLOSE_COUNT]
    limits = []
    for added in TO_THE_NORM:
        found = [share * (size + added) for share, size in cut]
        kept = [size for share, size in zip(shares, sizes, strict=False) if share >= 1 - CLOSE_COUNT]
        agree = max(found) - min(found) <= CLOSE_COUNT * max(found)
        if agree and all(size <= (1 + CLOSE_LIMIT) * found[0] for size in kept):
            limits.append(found[0])
    return Place(each, tuple(limits), len(cut)) if limits else None


def are_distinct(one: Place, other: Place) -> bool:
    """Returns whether two sides clip to one limit at different places, or one does and the other not at all."""
    if one.each == other.each:
        return False
    if one.limits and other.limits:
        return any(abs(a - b) <= CLOSE_LIMIT * b for a, b in product(one.limits, other.limits))
    # Where one side clips nothing a single factor may be anything: two that end at one norm are clipped.
    return any(place.each and place.cut > 1 for place in (one, other))


def _words(place: Place, quantity: str) -> str:
    if place.each is None:
        return "none of them" if quantity == "clip" else "no rank's own"
    return "each rank's own" if place.each else "the combined ones"


def _combined(
    shares: tuple[float, ...], columns: list[Array], pair: tuple[str, Array, Array]
) -> tuple[Array, Array, Array]:
    # (towers,) times (towers, *variable): what the fitted shares make of the towers' own gradients.
    _, one, other = pair
    return np.tensordot(np.array(shares), np.stack(columns), 1), other, one
