"""Compares two losses term by term: what one leaves out, adds, or counts otherwise.

A cause is named only where what counts otherwise makes up the whole difference of the losses.
"""

from fractions import Fraction

import numpy as np

from parity.diagnose.agreement import CLOSE_OUTPUT, LEFT
from parity.diagnose.catalogue import build_cause
from parity.diagnose.layers.linear_terms import Term
from parity.diagnose.layers.loss_sums import Sums, otherwise
from parity.diagnose.layers.term_counts import (
    LARGEST_COUNT_OF_MEAN,
    in_one_order,
    is_fraction,
    is_reduced,
    share_of,
    words_of_counts,
    words_of_number,
)
from parity.diagnose.ops.table import plain
from parity.judge.result import Cause

MOST_TERMS_SHOWN = 2
OF_A_LABEL = 2  # terms of which a label that is 0 or 1 says which one counts


def other_terms(sums: Sums) -> Cause | None:
    """Returns the cause where terms that count otherwise, or on one side only, make up the difference of the losses.

    Args:
      sums: both losses, taken apart.
    """
    left_out, added = sums.alone
    wrong = otherwise(sums)
    apart = abs(sums.total(1) - sums.total(0))  # signs do not matter: which side has more the cause says
    # One term on either side alone explains itself; on both sides at once neither of them does.
    if (left_out or added) and not wrong:
        return _of_one_side(sums, left_out, added) if not (left_out and added) else None
    if not _equal(sums, left_out, added, LEFT * apart):
        return None
    if not wrong:
        # All terms count alike: a constant is left, if it makes up all but LEFT of the difference.
        return _constant(sums) if np.ptp(sums.constants) >= (1.0 - LEFT) * apart > 0.0 else None
    # What is added beside terms has to agree, or it would be a part of what differs.
    if not (_as_much(sums, sums.constants, apart) and _as_much(sums, sums.of_weights, apart)):
        return None
    # None where a term's numbers count by several factors, as with another mask.
    shares = {key: share_of(sums.reference[key], sums.candidate[key]) for key in wrong}
    known = [share for share in shares.values() if share is not None]
    alike = len(known) == len(wrong) and np.ptp(known) <= CLOSE_OUTPUT * max(known)
    # One share of every term: the loss as a whole is scaled, before anything is added to it.
    if alike and len(wrong) == len(sums.reference) > 1:
        return _all_of_them(sums, wrong)
    # What counts here does not count there, of every term: the mask of one side is the other's complement.
    if len(wrong) > 1 and all(_exchanged(sums.reference[key], sums.candidate[key]) for key in wrong):
        return _inverted(sums, wrong)
    if len(wrong) == OF_A_LABEL and all(
        _count_by_turns(*(side[key] for key in wrong)) for side in (sums.reference, sums.candidate)
    ):
        return _other_labels(sums, wrong)
    return _counted(sums, wrong[0]) if len(wrong) == 1 else _several(sums, wrong)


def _equal(sums: Sums, left_out: list[str], added: list[str], near: float) -> bool:
    """Whether what only one side has brings the same to both: one term that they compute in other steps."""
    parts = sum(sums.reference[key].part for key in left_out), sum(sums.candidate[key].part for key in added)
    # Neither or both: a term of one side cannot be the same as none.
    return abs(parts[0] - parts[1]) <= near and bool(left_out) == bool(added)


def _as_much(sums: Sums, added: tuple[float, float], apart: float) -> bool:
    """Whether both sides add as much, but for rounding: of the losses, and small beside what differs of them."""
    return bool(np.ptp(added) <= min(LEFT * apart, CLOSE_OUTPUT * max(abs(sums.total(side)) for side in (0, 1))))


def _exchanged(one: Term, other: Term) -> bool:
    """Whether each of a term's numbers counts on one side only."""
    a, b = in_one_order(one, other)
    return bool(((a != 0.0) != (b != 0.0)).all() and a.any() and b.any())


def _inverted(sums: Sums, keys: list[str]) -> Cause:
    names = " and ".join(sums.names[key] for key in keys[:MOST_TERMS_SHOWN])
    evidence = f"each number of the {len(keys)} terms counts on one side only, and that is the whole difference"
    return build_cause("loss_function", "inverted", evidence=evidence, names=names)


def _count_by_turns(positive: Term, negative: Term) -> bool:
    """Whether of two numbers of each example a loss counts one, as of log p and log(1 - p) the one that the label says."""
    if positive.counts.shape != negative.counts.shape:
        return False
    held = positive.counts != 0.0, negative.counts != 0.0
    return bool((held[0] != held[1]).all() and held[0].any() and held[1].any())


def _other_labels(sums: Sums, keys: list[str]) -> Cause:
    one, other = (sums.names[key] for key in keys)
    mine, theirs = (int(np.count_nonzero(side[keys[0]].counts)) for side in (sums.reference, sums.candidate))
    evidence = (
        f"of {sums.reference[keys[0]].counts.size:,} examples {one} counts for {theirs:,} in the candidate and {mine:,} in "
        f"the reference, {other} for all others: that is the whole difference"
    )
    return build_cause("loss_function", "labels", evidence=evidence, one=one, other=other)


def _of_one_side(sums: Sums, left_out: list[str], added: list[str]) -> Cause | None:
    apart = sums.total(1) - sums.total(0)
    # candidate - reference is -parts where the reference alone has them, and +parts where the candidate has.
    terms, keys, sign = [(sums.reference, left_out, -1.0), (sums.candidate, added, 1.0)][bool(added)]
    parts = sum(terms[key].part for key in keys)
    # At least one common term shows that the two losses are of the same things.
    if not sums.common or abs(sign * parts - apart) > LEFT * abs(apart):
        return None
    if not (_as_much(sums, sums.constants, abs(apart)) and _as_much(sums, sums.of_weights, abs(apart))):
        return None
    named = " and ".join(sums.names[key] for key in keys[:MOST_TERMS_SHOWN])
    evidence = f"{named} brings {parts:.9g} to the loss, which is the whole difference; all other terms count the same"
    return build_cause("loss_term", "added" if added else "left out", evidence=evidence, names=named)


def _constant(sums: Sums) -> Cause:
    one, other = sums.constants
    evidence = "all terms count the same on both sides: gradients are not touched"
    return build_cause("loss_term", "constant", evidence=evidence, other=other, own=one)


def _all_of_them(sums: Sums, keys: list[str]) -> Cause:
    one, other = sums.reference[keys[0]], sums.candidate[keys[0]]
    share = words_of_number(share_of(one, other) or 0.0)
    names = ", ".join(sums.names[key] for key in keys)
    evidence = f"so do all its terms, {names}, and that is the whole difference"
    first = sums.names[keys[0]]
    theirs, mine = words_of_counts(other), words_of_counts(one)
    return build_cause("loss_reduction", "all", evidence=evidence, share=share, name=first, theirs=theirs, mine=mine)


def _several(sums: Sums, keys: list[str]) -> Cause:
    told = [
        f"{sums.names[key]} counts {words_of_counts(sums.candidate[key])}, not {words_of_counts(sums.reference[key])}"
        for key in keys
    ]
    reduced = all(_counted(sums, key).name == "loss_reduction" for key in keys)
    evidence = f"{'; '.join(told)}: that is the whole difference"
    return build_cause("loss_reduction" if reduced else "loss_term", "several", evidence=evidence, told=told[0])


def _counted(sums: Sums, key: str) -> Cause:
    name, one, other = sums.names[key], sums.reference[key], sums.candidate[key]
    mine, theirs, share = words_of_counts(one), words_of_counts(other), share_of(one, other)
    # Numbers of one term by several factors: a weighting, or a mask.
    if share is None:
        a, b = in_one_order(one, other)
        evidence = f"{int((a != b).sum())} of its {a.size} numbers count otherwise, and that is the whole difference"
        if plain(sums.kinds[key]) == "log_softmax" and _of_the_same_examples(one, other):
            what = (
                f"targets that share what an example counts among its classes otherwise, as smoothed ones do: of {name}"
            )
            return build_cause("cross_entropy", evidence=evidence, what=what)
        others = mine if mine != theirs else "others"
        return build_cause("loss_reduction", "weights", evidence=evidence, theirs=theirs, name=name, mine=others)
    evidence = f"it counts {words_of_number(share)} times as much in the candidate, and that is the whole difference"
    scalar = one.value.size == 1
    # First what no reduction gives, then what some reduction does; the rest is a term by another coefficient.
    if _is_factor(sums, key, share):
        return _factor(sums, key, share)
    # Weights that are normalised otherwise are another mean, and no other coefficient: by what, the data say.
    by_what = _divided_otherwise(sums, one, share)
    if by_what:
        variant = "scalar" if scalar else "one"
        evidence = f"{evidence}; {by_what}"
        return build_cause("loss_reduction", variant, evidence=evidence, name=name, theirs=theirs, mine=mine)
    # A single number may have been reduced before: only of a sum, or where it is all there is, can that be asked.
    divided = "sum" in sums.kinds[key].lower() or len(sums.reference) == 1
    reduced = is_reduced(one, sums.divisors[0]) and is_reduced(other, sums.divisors[1])
    # A negative share turns the term's sign, which no reduction does.
    if (not is_fraction(share) and not reduced) or share < 0.0 or (scalar and not divided):
        return build_cause("loss_term", "one", evidence=evidence, name=name, theirs=theirs, mine=mine)
    variant = "scalar" if scalar else "one"
    return build_cause("loss_reduction", variant, evidence=evidence, name=name, theirs=theirs, mine=mine)


def _of_the_same_examples(one: Term, other: Term) -> bool:
    """Whether every example counts as much on both sides, all of its classes together."""
    if one.counts.ndim < 2 or one.counts.shape != other.counts.shape:
        return False
    whole, theirs = (np.sort(each.counts.sum(-1), axis=None) for each in (one, other))
    return bool(np.abs(whole - theirs).max() <= CLOSE_OUTPUT * np.abs(whole).max())


def _divided_otherwise(sums: Sums, term: Term, share: float) -> str:
    """What either side alone divides by, where that is how many times as much a term counts; "" where it is not.

    Of numbers that both sides divide by nothing follows: there a share is a coefficient.
    """
    own, other = (
        [each for each in one if not any(abs(each - two) <= CLOSE_OUTPUT * abs(two) for two in rest)]
        for one, rest in (sums.normalisers, sums.normalisers[::-1])
    )
    # Beside it both may divide by how many numbers there are, or how many of them count.
    counts = {1.0, float(term.counts.size), float(np.count_nonzero(term.counts))}
    for here in (1.0, *own):
        for there in (1.0, *other):
            ratios = [here * a / (there * b) for a in counts for b in counts]
            # CLOSE_OUTPUT, as for all shares: the numbers are tens, and the ratios far apart.
            near = any(abs(share - each) <= CLOSE_OUTPUT * abs(each) for each in ratios)
            if near and (here, there) != (1.0, 1.0):
                words = [f"{each:.9g}" if each != 1.0 else "no such number" for each in (there, here)]
                return f"the candidate divides by {words[0]} of the data, the reference by {words[1]}"
    return ""


def _is_factor(sums: Sums, key: str, share: float) -> bool:
    """Whether all that data bring to a loss is one reduced number, times what no reduction of as many numbers gives."""
    alone = len(sums.reference) == len(sums.candidate) == 1 and sums.reference[key].value.size == 1
    if not alone or not sums.sizes[key] or "sum" in sums.kinds[key].lower() or not is_fraction(share) or share <= 0.0:
        return False
    # Of n numbers a mean over some of them counts k / n: a denominator beyond n is a factor that somebody wrote.
    fraction = Fraction(share).limit_denominator(LARGEST_COUNT_OF_MEAN)
    return min(fraction.numerator, fraction.denominator) > 1 and fraction.denominator > sums.sizes[key]


def _factor(sums: Sums, key: str, share: float) -> Cause:
    times = f"{words_of_number(share)} times as much in the candidate"
    evidence = f"{sums.names[key]} counts {times}, and that is the whole difference"
    if any(sums.of_weights):
        evidence += "; the factor does not reach what weights alone add"
    return build_cause("gradient_factor", "data", evidence=evidence, factor=share)
