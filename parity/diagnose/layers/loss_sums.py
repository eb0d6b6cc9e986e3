"""Takes two losses apart into the terms that they are sums of, and says which of these count otherwise on the two sides.

For towers whose layers are all the same: a term is what the forward passes give, times how much it counts.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from parity.diagnose.agreement import CLOSE_OUTPUT
from parity.diagnose.layers.linear_terms import Term, Terms, terms_of
from parity.diagnose.layers.term_counts import in_one_order
from parity.locate.downstream import active, readers, upstream
from parity.locate.matching import Pass, Reached
from parity.trace import ForwardOp
from parity.trace.arrays import Array


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
      normalisers: by side those of them that many numbers were reduced to and that something is divided by.
    """

    reference: Mapping[str, Term]
    candidate: Mapping[str, Term]
    constants: tuple[float, float]
    of_weights: tuple[float, float]
    names: Mapping[str, str]
    kinds: Mapping[str, str]
    sizes: Mapping[str, int]
    divisors: tuple[Sequence[float], Sequence[float]] = ((), ())
    normalisers: tuple[Sequence[float], Sequence[float]] = ((), ())

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
    divided = list(_normalisers(reference)), list(_normalisers(candidate))
    return Sums(keys[0], keys[1], constants, of_weights, names, kinds, sizes, added, divided)


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


def _normalisers(passed: Pass) -> Iterator[float]:
    """Yields the single numbers of data alone that were reduced from many and that something is divided by.

    Such as the sum, the mean or the largest of some weights, kept from being 0 by a limit or an epsilon. A number that is
    fed, as a coefficient may be, is none.
    """
    of_weights, after = active(passed.ops), readers(passed.ops)
    reduced = set[int]()
    for number, op in enumerate(passed.ops):
        if math.prod(op.shape) != 1 or number in of_weights:
            continue
        # Of whole numbers a pass keeps no values: a count of them is one all the same, once it is cast.
        if any(each in reduced or math.prod(passed.ops[each].shape) > 1 for each in op.inputs) or _takes_many(op):
            reduced.add(number)
            value = passed.value(number) if any(_divides(passed.ops[each]) for each in after[number]) else None
            if value is not None and value.dtype.kind in "fiu" and np.isfinite(value).all() and value.any():
                yield float(np.reshape(value, ()))


def _takes_many(op: ForwardOp) -> bool:
    # An input of the tower is no op's output.
    return any(operand.op is None and math.prod(operand.shape) > 1 for operand in op.operands)


def _divides(op: ForwardOp) -> bool:
    return "div" in op.kind.lower() or "reciprocal" in op.kind.lower()


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


def _same_counts(one: Term, other: Term) -> bool:
    a, b = in_one_order(one, other)
    return bool(np.abs(a - b).max(initial=0.0) <= CLOSE_OUTPUT * np.abs(a).max(initial=0.0))
