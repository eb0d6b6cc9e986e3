"""How much the numbers of a term count in a loss: on both sides in one order, and in words: a sum, a mean, a fraction."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from parity.diagnose.agreement import CLOSE_OUTPUT
from parity.diagnose.layers.linear_terms import Term
from parity.trace.arrays import Array

LARGEST_COUNT_OF_MEAN = 20_000  # what a mean is over: a fraction of two such numbers is an accident once in 40,000


def in_one_order(one: Term, other: Term) -> tuple[Array, Array]:
    """Returns how much a term's numbers count on each side, sorted by these; those that are alike together, without zeros.

    Args:
      one: the term of the reference.
      other: the same of the candidate.
    """
    sums = []
    for term in (one, other):
        # By value and not by place: the sides have their numbers in different layouts.
        order = np.argsort(term.value, axis=None, kind="stable")
        values, counts = term.value.reshape(-1)[order], term.counts.reshape(-1)[order]
        kept = values != 0.0
        sums.append((values[kept], counts[kept]))
    (values, a), (others, b) = sums
    # Of another count of numbers nothing belongs together: 0 against 1 says that they differ.
    if a.size != b.size:
        return np.zeros(1), np.ones(1)
    # 1e-12 of the largest number: what is nearer the two sides may well have in another order.
    near = 1e-12 * np.abs(values).max(initial=0.0)
    # A group begins where both sides' values jump: of numbers that are equal to rounding nobody can say which is which.
    begins = (
        np.concatenate([[True], (np.diff(values) > near) & (np.diff(others) > near)]) if a.size else np.zeros(0, bool)
    )
    places = np.flatnonzero(begins)
    return (np.add.reduceat(a, places), np.add.reduceat(b, places)) if a.size else (a, b)


def share_of(one: Term, other: Term) -> float | None:
    """Returns how many times as much every number counts in the candidate, None where it is not one number."""
    a, b = in_one_order(one, other)
    held = a != 0.0
    # b / a is the same for all numbers where only the reduction differs.
    shares = b[held] / a[held]
    # The same numbers count on both sides, or it is a mask.
    same = held.any() and bool(((b != 0.0) == held).all()) and np.ptp(shares) <= 1e-9 * np.abs(shares).max()
    return float(np.median(shares)) if same else None


def is_reduced(term: Term, divisors: Sequence[float]) -> bool:
    """Returns whether what is taken of a term's numbers is their sum, their mean, or divided by a number of data."""
    held = term.counts[term.counts != 0.0]
    # The sum, the mean over those that count, the mean over all.
    counts = [1.0, float(held.size), float(term.counts.size)]
    known = [each * count for each in (1.0, *divisors) for count in counts]
    if term.counts.size == held.size == 1:
        known.append(float(round(1.0 / float(held[0]))))  # of what is a sum by itself: how many were added up
    return bool(held.size) and any(np.abs(held * each - 1.0).max() <= CLOSE_OUTPUT for each in known)


def words_of_counts(term: Term) -> str:
    """Returns what is taken of a term's numbers, e.g. "the mean" or "0.5 times the sum"."""
    flat = term.counts.reshape(-1)
    held = flat[flat != 0.0]
    size, count = flat.size, held.size  # all its numbers, and those that count
    if size == 1:
        return f"{words_of_number(float(flat[0]))} times"
    # 1e-9: the counts are products of few factors, and rounding leaves 1e-15 of them.
    if not count or np.ptp(held) > 1e-9 * np.abs(held).max():
        total = float(flat.sum())
        return f"a weighted sum, with weights that add up to {words_of_number(total)},"
    which = "all" if count == size else f"{count:,} of its {size:,} numbers:"
    # held.mean() is the one count of all of them: 1 of a sum, 1 / n of a mean.
    factor = float(held.mean())
    for words, value in (("the sum", 1.0), ("the mean", 1.0 / count), ("the sum over the number of all", 1.0 / size)):
        if abs(factor - value) <= 1e-9 * value:
            return words if count == size else f"{which} {words}"
    return (
        f"{words_of_number(factor)} times the sum"
        if count == size
        else f"{which} {words_of_number(factor)} times the sum"
    )


CONSTANTS = {
    "log 2": float(np.log(2.0)),
    "log 10": float(np.log(10.0)),
    "pi": float(np.pi),
    "the root of 2": 2.0**0.5,
}


def words_of_number(value: float) -> str:
    """Returns a number, as a fraction or with the constant that it is, where it is one."""
    for words, constant in CONSTANTS.items():
        for text, known in ((words, constant), (f"1 / {words}", 1.0 / constant)):
            # To 1e-9: no fraction of small numbers is so near to these.
            if abs(value / known - 1.0) <= 1e-9 if value else False:
                return f"{value:.6g} ({text})"
    fraction = Fraction(value).limit_denominator(LARGEST_COUNT_OF_MEAN)
    # As a fraction only where six digits do not say it as well: 0.5 stays 0.5.
    if is_fraction(value) and fraction.denominator > 1 and f"{value:.6g}" != f"{value:.12g}":
        return f"{fraction.numerator}/{fraction.denominator}"
    return f"{value:.6g}"


def is_fraction(value: float) -> bool:
    """Returns whether a number is one count over another."""
    fraction = Fraction(value).limit_denominator(LARGEST_COUNT_OF_MEAN)
    # 900 roundings; fractions of two numbers up to 20,000 are 2.5e-9 apart and more, so that no second one is near.
    return fraction != 0 and abs(value / float(fraction) - 1.0) <= 1e-13
