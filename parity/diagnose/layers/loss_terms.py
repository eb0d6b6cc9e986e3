"""Compares two losses term by term: what one leaves out, adds, or counts otherwise.

For towers whose layers are all the same. Both losses are taken apart into what the forward passes give and how much it
counts; a cause is named only where what counts otherwise makes up the whole difference of the losses.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from parity.diagnose.catalogue import build_cause
from parity.diagnose.evidence import CLOSE_OUTPUT, LEFT
from parity.diagnose.layers.linear_terms import Term, Terms, terms_of
from parity.judge.result import Cause
from parity.locate.downstream import active, upstream
from parity.locate.matching import Pass, Reached
from parity.trace.arrays import Array

MOST_TERMS_SHOWN = 2
LARGEST_COUNT_OF_MEAN = 20_000  # what a mean is over: a fraction of two such numbers is an accident once in 40,000


class Sums(NamedTuple):
    """The losses of both sides, taken apart.

    Fields:
      reference, candidate: by key what a loss is a sum of; a key of both sides is what both compute alike.
      constants: what is added to them, of no weights.
      of_weights: the same of weights alone.
      names: by key what it is called in the reference, or in the port where only that one has it.
      kinds: by key of what kind that op is.
      sizes: by key how many numbers are reduced to it, where it is one; 0 where no data go in.
      divisors: by side the numbers that its pass makes of data alone.
    """

    reference: Mapping[str, Term]
    candidate: Mapping[str, Term]
    constants: tuple[float, float]
    of_weights: tuple[float, float]
    names: Mapping[str, str]
    kinds: Mapping[str, str]
    sizes: Mapping[str, int]
    divisors: tuple[Sequence[float], Sequence[float]] = ((), ())

    def total(self, side: int) -> float:
        """The loss of a side: 0 for the reference's, 1 for the candidate's."""
        terms = (self.reference, self.candidate)[side]
        return sum(term.part for term in terms.values()) + self.constants[side] + self.of_weights[side]

    @property
    def common(self) -> list[str]:
        """The keys of both sides."""
        return [key for key in self.reference if key in self.candidate]

    @property
    def alone(self) -> tuple[list[str], list[str]]:
        """The keys of one side only."""
        one, two = self.reference, self.candidate
        return [key for key in one if key not in two], [key for key in two if key not in one]


def sums_of(reference: Pass, candidate: Pass, reached: Reached, losses: tuple[float, float]) -> Sums | None:
    """Returns both losses taken apart; None where one of them cannot be.

    Args:
      reference: its pass.
      candidate: its own.
      reached: which of their outputs the other side has too.
      losses: their values.
    """
    known = [set(reached.reference), set(reached.candidate)]
    apart = [
        _apart(passed, found, loss) for passed, found, loss in zip((reference, candidate), known, losses, strict=True)
    ]
    one, other = apart
    if one is None or other is None:
        return None
    keys: list[dict[str, Term]] = [{}, {}]  # one of each side
    names: dict[str, str] = {}
    kinds: dict[str, str] = {}
    sizes: dict[str, int] = {}
    for side, (terms, found, passed) in enumerate(zip((one, other), known, (reference, candidate), strict=True)):
        for term in terms.terms:
            # One key for an output that both have, whichever side's op it is.
            # A term that the other side has no like of keeps a key of its own side.
            own = _common_number(term.number, side, reached) if term.number in found else None
            key = f"both {own}" if own is not None else f"{('reference', 'candidate')[side]} {term.number}"
            held = keys[side].get(key)
            keys[side][key] = _together(term, held) if held else term
            op = passed.ops[term.number]
            names.setdefault(key, op.name if not side else " ".join(part for part in (op.name, op.kind) if part))
            kinds.setdefault(key, op.kind)
            sizes.setdefault(key, _reduced(passed, term.number))
    constants, of_weights = (one.constant, other.constant), (one.of_weights, other.of_weights)
    added = list(_of_data(reference)), list(_of_data(candidate))
    return Sums(keys[0], keys[1], constants, of_weights, names, kinds, sizes, added)


def _together(one: Term, other: Term) -> Term:
    """Two outputs that hold the same numbers, as one term: how much they count adds up, number by number."""
    # Their axes may be in another order, or joined: the k-th smallest of the one is the k-th smallest of the other.
    counts = one.counts.flatten()
    places, others = (np.argsort(each.value, axis=None, kind="stable") for each in (one, other))
    counts[places] += other.counts.reshape(-1)[others]
    return one._replace(counts=counts.reshape(one.counts.shape))


def _reduced(passed: Pass, number: int) -> int:
    """How many numbers an op takes, or what it is computed of, one number after the other."""
    # 0, so that an op without inputs, such as a constant, has a size.
    pending, sizes = list(passed.ops[number].inputs), [0]
    while pending:
        each = pending.pop()
        sizes.append(math.prod(passed.ops[each].shape))
        # Behind single numbers it goes on: what they were reduced from is the size that is asked for.
        pending += passed.ops[each].inputs if sizes[-1] == 1 else []
    return max(sizes)


def _of_data(passed: Pass) -> Iterator[float]:
    """Yields the single numbers that a pass makes of data alone, such as sums of weights: what a loss may be divided by."""
    # What weights go into is a term of the loss, and no divisor.
    of_weights = active(passed.ops)
    for number, op in enumerate(passed.ops):
        value = passed.value(number) if math.prod(op.shape) == 1 and number not in of_weights else None
        if value is not None and value.dtype.kind == "f" and np.isfinite(value).all() and value.any():
            yield float(np.reshape(value, ()))


def _common_number(number: int, side: int, reached: Reached) -> int:
    there = reached.reference[number] if side == 0 else number
    return reached.candidate[there]


def _apart(passed: Pass, known: set[int], loss: float) -> Terms | None:
    end = place_of(passed, loss)
    if end is None:
        return None
    return terms_of(passed.ops, passed.value, end, known - _idle(passed, end, loss))


def _idle(passed: Pass, end: int, loss: float) -> set[int]:
    """The sums with terms that happen to be 0 that a loss ends with: for all their numbers no outputs of the other side."""
    # 1e-12 of the loss: 9,000 roundings of float64.
    chain, found, near = [end], set[int](), 1e-12 * abs(loss)
    # `chain` grows while it is walked: from the loss back through sums whose other term is 0.
    # Scalars alone: with a term of many numbers the sum would not be the loss itself.
    for number in chain:
        values = {each: passed.value(each) for each in passed.ops[number].inputs}
        scalars = {each: float(v.reshape(())) for each, v in values.items() if v is not None and v.size == 1}
        # One of them is 0: all up to here is the loss, and nothing but sums lies between.
        found |= set(chain) if any(abs(value) <= near for value in scalars.values()) else set()
        chain += [each for each, value in scalars.items() if abs(value - loss) <= near][:1]
    return found


def place_of(passed: Pass, loss: float) -> int | None:
    """Returns the number of the op that gives a loss, None where none does."""
    # From the end: casts and identities behind a loss give it too, and the last is the one that trains.
    for number in range(len(passed.ops) - 1, -1, -1):
        value = passed.value(number)
        if value is not None and value.size == 1 and abs(float(value.reshape(())) - loss) <= 1e-12 * abs(loss):
            return number
    return None


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
    shares = {key: _share(sums.reference[key], sums.candidate[key]) for key in wrong}
    known = [share for share in shares.values() if share is not None]
    alike = len(known) == len(wrong) and np.ptp(known) <= CLOSE_OUTPUT * max(known)
    # One share of every term: the loss as a whole is scaled, before anything is added to it.
    if alike and len(wrong) == len(sums.reference) > 1:
        return _all_of_them(sums, wrong)
    # What counts here does not count there, of every term: the mask of one side is the other's complement.
    if len(wrong) > 1 and all(_exchanged(sums.reference[key], sums.candidate[key]) for key in wrong):
        return _inverted(sums, wrong)
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
    a, b = _in_one_order(one, other)
    return bool(((a != 0.0) != (b != 0.0)).all() and a.any() and b.any())


def _inverted(sums: Sums, keys: list[str]) -> Cause:
    names = " and ".join(sums.names[key] for key in keys[:MOST_TERMS_SHOWN])
    evidence = f"each number of the {len(keys)} terms counts on one side only, and that is the whole difference"
    return build_cause("loss_function", "inverted", evidence=evidence, names=names)


class Rest(NamedTuple):
    """What is left of two losses without the terms that count the same in both, and what weights alone add.

    Fields:
      reference, candidate: the numbers.
      shares: what these may be divided by for what a loss gives before it is weighed.
    """

    reference: float
    candidate: float
    shares: tuple[float, ...]


def unexplained(sums: Sums) -> Rest:
    """Returns what is left of both losses where terms of them are no more than alike."""
    wrong = otherwise(sums)
    same = sum(sums.reference[key].part for key in sums.common if key not in wrong)
    # Without decay and all that counts alike, so that forms are tried on what is left.
    # What both add alike belongs to no form of a loss; constants that differ may be a part of one.
    added = sums.constants[0] if sums.constants[0] == sums.constants[1] else 0.0
    left = [sums.total(side) - sums.of_weights[side] - same - added for side in (0, 1)]
    shares = {1.0: None}  # a dict for its keys, each once and in order
    for side, alone in ((sums.reference, sums.alone[0]), (sums.candidate, sums.alone[1])):
        # Every number of a term that one side alone has counts `factor`: the form itself is the loss over that if it is
        # a sum, and over that times the count if it is a mean.
        factor = side[alone[0]].factor if len(alone) == 1 and not wrong else None
        if factor:
            shares |= {factor: None, factor * side[alone[0]].value.size: None}
    return Rest(left[0], left[1], tuple(shares))


def linear_in(sums: Sums, reference: Pass, candidate: Pass) -> list[Array]:
    """Returns the outputs in which both losses are no more than sums: no other function of them is in either.

    Args:
      sums: both losses, taken apart.
      reference: its pass.
      candidate: its own.
    """
    # Of each side all that goes into the terms it alone has: there some other function is made of an output.
    behind = [
        upstream(passed.ops, [terms[key].number for key in alone])
        for passed, terms, alone in zip(
            (reference, candidate), (sums.reference, sums.candidate), sums.alone, strict=True
        )
    ]
    return [
        sums.reference[key].value
        for key in sums.common
        if sums.reference[key].number not in behind[0] and sums.candidate[key].number not in behind[1]
    ]


def otherwise(sums: Sums) -> list[str]:
    """Returns the keys of the terms of both sides that count otherwise in one than in the other."""
    return [key for key in sums.common if not _same_counts(sums.reference[key], sums.candidate[key])]


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


def _same_counts(one: Term, other: Term) -> bool:
    a, b = _in_one_order(one, other)
    return bool(np.abs(a - b).max(initial=0.0) <= CLOSE_OUTPUT * np.abs(a).max(initial=0.0))


def _in_one_order(one: Term, other: Term) -> tuple[Array, Array]:
    """How much the numbers of a term count, sorted by these; those that are alike together. What is 0 brings nothing."""
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


def _share(one: Term, other: Term) -> float | None:
    """How many times as much every number counts in the candidate, None where it is not one number."""
    a, b = _in_one_order(one, other)
    held = a != 0.0
    # b / a is the same for all numbers where only the reduction differs.
    shares = b[held] / a[held]
    # The same numbers count on both sides, or it is a mask.
    same = held.any() and bool(((b != 0.0) == held).all()) and np.ptp(shares) <= 1e-9 * np.abs(shares).max()
    return float(np.median(shares)) if same else None


def _all_of_them(sums: Sums, keys: list[str]) -> Cause:
    one, other = sums.reference[keys[0]], sums.candidate[keys[0]]
    share = _number(_share(one, other) or 0.0)
    names = ", ".join(sums.names[key] for key in keys)
    evidence = f"so do all its terms, {names}, and that is the whole difference"
    first = sums.names[keys[0]]
    theirs, mine = _words(other), _words(one)
    return build_cause("loss_reduction", "all", evidence=evidence, share=share, name=first, theirs=theirs, mine=mine)


def _several(sums: Sums, keys: list[str]) -> Cause:
    told = [
        f"{sums.names[key]} counts {_words(sums.candidate[key])}, not {_words(sums.reference[key])}" for key in keys
    ]
    reduced = all(_counted(sums, key).name == "loss_reduction" for key in keys)
    evidence = f"{'; '.join(told)}: that is the whole difference"
    return build_cause("loss_reduction" if reduced else "loss_term", "several", evidence=evidence, told=told[0])


def _counted(sums: Sums, key: str) -> Cause:
    name, one, other = sums.names[key], sums.reference[key], sums.candidate[key]
    mine, theirs, share = _words(one), _words(other), _share(one, other)
    # Numbers of one term by several factors: a weighting, or a mask.
    if share is None:
        a, b = _in_one_order(one, other)
        evidence = f"{int((a != b).sum())} of its {a.size} numbers count otherwise, and that is the whole difference"
        others = mine if mine != theirs else "others"
        return build_cause("loss_reduction", "weights", evidence=evidence, theirs=theirs, name=name, mine=others)
    evidence = f"it counts {_number(share)} times as much in the candidate, and that is the whole difference"
    scalar = one.value.size == 1
    # First what no reduction gives, then what some reduction does; the rest is a term by another coefficient.
    if _is_factor(sums, key, share):
        return _factor(sums, key, share)
    # A single number may have been reduced before: only of a sum, or where it is all there is, can that be asked.
    divided = "sum" in sums.kinds[key].lower() or len(sums.reference) == 1
    reduced = _is_reduced(one, sums.divisors[0]) and _is_reduced(other, sums.divisors[1])
    # A negative share turns the term's sign, which no reduction does.
    if (not _is_fraction(share) and not reduced) or share < 0.0 or (scalar and not divided):
        return build_cause("loss_term", "one", evidence=evidence, name=name, theirs=theirs, mine=mine)
    variant = "scalar" if scalar else "one"
    return build_cause("loss_reduction", variant, evidence=evidence, name=name, theirs=theirs, mine=mine)


def _is_factor(sums: Sums, key: str, share: float) -> bool:
    """Whether all that data bring to a loss is one reduced number, times what no reduction of as many numbers gives."""
    alone = len(sums.reference) == len(sums.candidate) == 1 and sums.reference[key].value.size == 1
    if not alone or not sums.sizes[key] or "sum" in sums.kinds[key].lower() or not _is_fraction(share) or share <= 0.0:
        return False
    # Of n numbers a mean over some of them counts k / n: a denominator beyond n is a factor that somebody wrote.
    fraction = Fraction(share).limit_denominator(LARGEST_COUNT_OF_MEAN)
    return min(fraction.numerator, fraction.denominator) > 1 and fraction.denominator > sums.sizes[key]


def _factor(sums: Sums, key: str, share: float) -> Cause:
    evidence = (
        f"{sums.names[key]} counts {_number(share)} times as much in the candidate, and that is the whole difference"
    )
    if any(sums.of_weights):
        evidence += "; the factor does not reach what weights alone add"
    return build_cause("gradient_factor", "data", evidence=evidence, factor=share)


def _is_reduced(term: Term, divisors: Sequence[float]) -> bool:
    """Whether what is taken of a term's numbers is their sum, their mean, or divided by a number of data."""
    held = term.counts[term.counts != 0.0]
    # The sum, the mean over those that count, the mean over all.
    counts = [1.0, float(held.size), float(term.counts.size)]
    known = [each * count for each in (1.0, *divisors) for count in counts]
    if term.counts.size == held.size == 1:
        known.append(float(round(1.0 / float(held[0]))))  # of what is a sum by itself: how many were added up
    return bool(held.size) and any(np.abs(held * each - 1.0).max() <= CLOSE_OUTPUT for each in known)


def _words(term: Term) -> str:
    """What is taken of a term's numbers."""
    flat = term.counts.reshape(-1)
    held = flat[flat != 0.0]
    size, count = flat.size, held.size  # all its numbers, and those that count
    if size == 1:
        return f"{_number(float(flat[0]))} times"
    # 1e-9: the counts are products of few factors, and rounding leaves 1e-15 of them.
    if not count or np.ptp(held) > 1e-9 * np.abs(held).max():
        total = float(flat.sum())
        return f"a weighted sum, with weights that add up to {_number(total)},"
    which = "all" if count == size else f"{count:,} of its {size:,} numbers:"
    # held.mean() is the one count of all of them: 1 of a sum, 1 / n of a mean.
    factor = float(held.mean())
    for words, value in (("the sum", 1.0), ("the mean", 1.0 / count), ("the sum over the number of all", 1.0 / size)):
        if abs(factor - value) <= 1e-9 * value:
            return words if count == size else f"{which} {words}"
    return f"{_number(factor)} times the sum" if count == size else f"{which} {_number(factor)} times the sum"


CONSTANTS = {
    "log 2": float(np.log(2.0)),
    "log 10": float(np.log(10.0)),
    "pi": float(np.pi),
    "the root of 2": 2.0**0.5,
}


def _number(value: float) -> str:
    """A number, as a fraction or with the constant that it is, where it is one."""
    for words, constant in CONSTANTS.items():
        for text, known in ((words, constant), (f"1 / {words}", 1.0 / constant)):
            # To 1e-9: no fraction of small numbers is so near to these.
            if abs(value / known - 1.0) <= 1e-9 if value else False:
                return f"{value:.6g} ({text})"
    fraction = Fraction(value).limit_denominator(LARGEST_COUNT_OF_MEAN)
    # As a fraction only where six digits do not say it as well: 0.5 stays 0.5.
    if _is_fraction(value) and fraction.denominator > 1 and f"{value:.6g}" != f"{value:.12g}":
        return f"{fraction.numerator}/{fraction.denominator}"
    return f"{value:.6g}"


def _is_fraction(value: float) -> bool:
    """Whether a number is one count over another."""
    fraction = Fraction(value).limit_denominator(LARGEST_COUNT_OF_MEAN)
    # 900 roundings; fractions of two numbers up to 20,000 are 2.5e-9 apart and more, so that no second one is near.
    return fraction != 0 and abs(value / float(fraction) - 1.0) <= 1e-13
