"""Causes that single towers or ranks have: one lacks a gradient, one goes its own way, one alone gives an element."""

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from parity.diagnose.agreement import EMPTY_GRADIENT, common_factor, explained_together, same_values, share_explained
from parity.diagnose.catalogue import build_cause
from parity.diagnose.evidence import Evidence
from parity.judge.metrics import norm
from parity.judge.result import Cause, FirstDifference
from parity.trace.arrays import Array

# What may be made of one element of all towers, (towers, *variable) -> (*variable): the operators of an all-reduce but
# for the sum, and what is made by hand.
OF_ELEMENTS: tuple[tuple[str, Callable[[Array], Array]], ...] = (
    ("the largest", lambda stacked: stacked.max(axis=0)),
    ("the smallest", lambda stacked: stacked.min(axis=0)),
    ("the largest in magnitude", lambda stacked: _chosen(stacked, np.abs(stacked).argmax(axis=0))),
    ("the smallest in magnitude", lambda stacked: _chosen(stacked, np.abs(stacked).argmin(axis=0))),
    ("the product", lambda stacked: stacked.prod(axis=0)),
)


def by_elements(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """Each element of the combined gradients that differ is one tower's own, or the towers' product: no sum of them."""
    step = first.check.step
    pairs = list(evidence.pairs(step, "grad"))
    wrong = [each for each in pairs if not same_values(each[1], each[2], evidence.close)]
    own = [
        {name: one for name, one, _ in evidence.pairs(step, "tower_grad", "", tower)}
        for tower in evidence.tower_names(step, "tower_grad")
    ]
    names = [name for name, _, _ in wrong]
    if len(own) < 2 or first.name not in names or any(name not in found for name in names for found in own):
        return None
    stacks = [np.stack([found[name] for found in own]) for name in names]
    made = _made_of_elements(stacks, wrong, evidence.close)
    if made is None:
        return None
    which, parts = made
    where = "every variable" if len(wrong) == len(pairs) else ", ".join(names)
    return build_cause(
        "some_towers",
        "by elements",
        evidence=f"the candidate's combined gradient of {where} is in each element {which} of the {len(own)} towers' own, "
        "which are the same on both sides",
        explains=share_explained(first, parts),
        which=which,
    )


def _made_of_elements(
    stacks: Sequence[Array], wrong: Sequence[tuple[str, Array, Array]], close: float
) -> tuple[str, list[tuple[Array, Array, Array]]] | None:
    """Returns what is made of each element, in words and numbers, or None where it is none of these."""

    def tried(make: Callable[[Array, Array], Array]) -> list[tuple[Array, Array, Array]] | None:
        made = [(make(stack, other), other, one) for stack, (_, one, other) in zip(stacks, wrong, strict=True)]
        fits = all(same_values(other, each, close) for each, other, _ in made) and explained_together(made)
        return made if fits else None

    # Where towers have the same elements, or no two have one, as of rows of an embedding, a multiple of their sum is made
    # of single ones as well.
    sums = [(stack.sum(axis=0), other) for stack, (_, _, other) in zip(stacks, wrong, strict=True)]
    if common_factor(sums, close) is not None:
        return None
    for which, rule in OF_ELEMENTS:
        for divided in (1, len(stacks[0])):
            found = tried(lambda stack, _, rule=rule, divided=divided: rule(stack) / divided)  # type: ignore[misc]
            if found is not None:
                return which if divided == 1 else f"{which}, divided by {divided},", found
    found = tried(lambda stack, other: _chosen(stack, np.abs(stack - other).argmin(axis=0)))
    return None if found is None else ("now one, now another", found)


def _chosen(stacked: Array, tower: Array) -> Array:
    """Returns of each element the number of one tower: stacked[tower[i], i] for every place i."""
    return cast(Array, np.take_along_axis(stacked, tower[None], axis=0)[0])


def lost_in_some_towers(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """Some variables get no gradient in some towers, and one in others: it is zero or not there; all else is the same."""
    if first.quantity != "tower_grad" or evidence.towers == 1:
        return None
    step = first.check.step
    towers, found = evidence.tower_names(step, "tower_grad"), _lost(step, evidence)
    if found is None:
        return None
    lost, kept = found
    names = {name for _, name in lost}
    # One that no tower has, and a tower that has none, have names of their own.
    if (first.tower, first.name) not in lost or not all(
        any((tower, name) in kept for tower in towers) for name in names
    ):
        return None
    if any(all(each != tower for each, _ in kept) for tower in towers):
        return None
    # Where all towers together give what the reference has, what is not there was only not recorded.
    if any(
        name in names and same_values(one, other, evidence.close) for name, one, other in evidence.pairs(step, "grad")
    ):
        return None
    shown = ", ".join(sorted({tower for tower, _ in lost}, key=towers.index))
    where = ", ".join(dict.fromkeys(name for _, name in lost))
    how = "is not there" if all(lost.values()) else "is zero or not there" if any(lost.values()) else "is zero"
    return build_cause(
        "zero_gradient",
        "in towers",
        evidence=f"the candidate's gradient of {where} in tower {shown} {how} where the reference's is not zero; the other "
        f"{len(kept)} gradients of the towers are the same",
        where=where,
        towers=shown,
    )


def _lost(step: int, evidence: Evidence) -> tuple[dict[tuple[str, str], bool], set[tuple[str, str]]] | None:
    """Returns which gradients, by tower and variable, the candidate lacks, and which are the same.

    Of those that it lacks it says whether they are not there, rather than zero. None where any other differs.
    """
    file, made = evidence.reference.step(step), evidence.candidate.step(step)
    keys = evidence.join.ordered([str(key) for key in file.keys("tower_grad")])
    pairs = {(key.tower, key.name): (file.read(text), evidence.join.read(key, made)) for key, text in keys}
    # What is zero but for rounding is lost nowhere.
    least = EMPTY_GRADIENT * max((norm(one) for one, _ in pairs.values()), default=0.0)
    lost, kept = dict[tuple[str, str], bool](), set[tuple[str, str]]()
    for place, (one, other) in pairs.items():
        if norm(one) <= least and (other is None or norm(other) <= least):
            continue
        if other is None or not other.any():
            lost[place] = other is None
        elif same_values(one, other, evidence.close):
            kept.add(place)
        else:
            return None
    return lost, kept


def parted_when_free(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """Ranks other than the first part from it: each step alone shows the first one's weights, which are right."""
    facts, step = evidence.candidate.facts, first.check.step
    if first.check.run != "free" or facts.get("ranks_agree", True):
        return None
    # Weights differ after a step, and what is made of them at the next one.
    if min(facts.get("steps_where_ranks_differ") or evidence.steps[:1], default=step) >= step:
        return None
    # The first rank's own loss differs a step later than the others', whose gradients take part in its own.
    if first.quantity == "loss" and first.tower in evidence.tower_names(step, "loss")[:1]:
        return None
    return build_cause(
        "not_shared",
        "other ranks",
        evidence="after a step the ranks hold different weights, though rank 0's are the reference's after each step from "
        f"its state; {first.check.key} at step {step} is the first that those of another rank are used for",
    )
