"""Tells which outputs of a forward pass the other side's pass reaches: the same numbers, in whatever order of axes."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from collections.abc import Mapping as Map
from functools import cached_property
from typing import NamedTuple

import numpy as np

from parity.trace import ForwardOp
from parity.trace.arrays import Array

# Relative, of float64: a sum of a million products rounds by sqrt(n) u = 1e-13, three decades below.
TOLERANCE = 1e-10
# 900 roundings: below, right outputs would no longer find each other.
LEAST_TOLERANCE = 1e-13
# From one tolerance to the next: a bug that hides at one of them shows a decade further down.
FINER = 10.0
# What a mask fills in: one huge number, with what it is added to, beside which all others are small.
HUGE = 1e3
FILLED = 0.01
DWARFED = 0.1
FIRST_COMPARED = 64  # numbers that are compared before all are
MOST_MADE_ALONE = 64  # places of an axis, that one side may make one by one
Value = Callable[[int], Array | None]


class Pass(NamedTuple):
    """A forward pass.

    Fields:
      ops: in an order of execution.
      value: returns the output of an op, None where it is not known.
      operand: returns what an op takes, by its number and the place among its operands, None where that is not known.
    """

    ops: Sequence[ForwardOp]
    value: Value
    operand: Callable[[int, int], Array | None] = lambda number, place: None


class Reached(NamedTuple):
    """What is known of the outputs of both sides.

    Fields:
      reference: by op, the number of an op of the candidate with the same numbers; of a part that the candidate makes with
        others at once, as all steps of a sequence, of that one.
      candidate: by op of the candidate, the number of such an op of the reference.
      told: by side, the numbers of the ops whose output tells: it is known, no output that many ops give, and not what the
        other side is fed.
    """

    reference: dict[int, int]
    candidate: dict[int, int]
    told: tuple[frozenset[int], frozenset[int]]


class _Output:
    """An output without its order; sorted only once it may be another's."""

    def __init__(self, number: int, value: Array) -> None:
        value = without_fill(value)
        self.number = number
        self.size = value.size
        finite = value[np.isfinite(value)].astype(np.float64)
        # Sums do not depend on the order of the numbers, and take one pass where sorting takes n log n.
        self.sums = float(finite.sum()), float((finite**2).sum())
        # Of sizes, since positive and negative numbers may cancel in the sums themselves.
        self.sizes = float(np.abs(finite).sum()), self.sums[1]
        self._value = value

    @cached_property
    def values(self) -> Array:
        """The numbers, ascending."""
        return np.sort(self._value, axis=None)

    def cut(self, count: int) -> Iterator[Iterator["_Output"]]:
        """Yields the ways to cut it into as many equal parts: an axis in blocks, or every so many-th place of it."""
        for axis, size in enumerate(self._value.shape):
            if size % count == 0:
                before, behind = self._value.shape[:axis], self._value.shape[axis + 1 :]
                for place in (axis, axis + 1)[: 1 + (size > count)]:
                    sizes = (count, size // count) if place == axis else (size // count, count)
                    whole = self._value.reshape(*before, *sizes, *behind)
                    yield (_Output(self.number, np.take(whole, each, place)) for each in range(count))

    def split(self, size: int) -> tuple["_Output", "_Output"] | None:
        """Returns its first rows, so many numbers, and those behind them; None where these are no whole rows."""
        row = self.size // len(self._value) if self._value.ndim and len(self._value) else 0
        if not row or size % row:
            return None
        return _Output(self.number, self._value[: size // row]), _Output(self.number, self._value[size // row :])

    @cached_property
    def largest(self) -> float:
        """The size of the largest number that is finite; NaN without any."""
        sizes = np.abs(self._value[np.isfinite(self._value)])
        return float(sizes.max()) if sizes.size else float("nan")

    def may_be(self, other: "_Output", tolerance: float) -> bool:
        """Whether their sums allow that they hold the same numbers; those within the tolerance always may."""
        pairs = zip(self.sums, other.sums, self.sizes, strict=True)
        # Each number may be off by tol (|x| + m), m the median of those that are not 0. Where half are zeros n m <= 4
        # sum |x|: then the sums are at most 5 tol apart, and those of squares 2 (1 + sqrt(2)) = 4.8.
        return all(abs(one - two) <= 8 * tolerance * size for one, two, size in pairs)

    def holds(self, other: "_Output", tolerance: float) -> bool:
        """Whether both hold the same numbers."""
        # In one order of axes first, and in that of channels: for most that are the same nothing has to be sorted.
        return self.may_be(other, tolerance) and (
            self._holds_in_order(other, tolerance) or alike(self.values, other.values, tolerance)
        )

    def _holds_in_order(self, other: "_Output", tolerance: float) -> bool:
        one, two = self._value, other._value
        moved = [np.moveaxis(two, 1, -1), np.moveaxis(two, -1, 1)] if two.ndim > 2 else []
        for each in [two, *moved]:
            if each.shape == one.shape and alike(one.flat[:FIRST_COMPARED], each.flat[:FIRST_COMPARED], tolerance):
                return alike(one.reshape(-1), each.reshape(-1), tolerance)
        return False


def reach(reference: Pass, candidate: Pass, tolerance: float = TOLERANCE) -> Reached:
    """Returns which outputs of each side the other one has too.

    Args:
      reference: its pass.
      candidate: its own, made from the same weights on the same inputs.
      tolerance: of the numbers, relative to each, and to the median of the output.
    """
    one, other = _by_size(reference), _by_size(candidate)
    of_reference: dict[int, int] = {}
    of_candidate: dict[int, int] = {}
    # By how many numbers they have: of other sizes no order of axes makes them the same.
    for size in one.keys() & other.keys():
        for output in one[size]:
            for against in other[size]:
                if output.number in of_reference and against.number in of_candidate:
                    continue
                if output.holds(against, tolerance):
                    # The first partner stays: which of several equal outputs it is does not matter to what is reached.
                    of_reference.setdefault(output.number, against.number)
                    of_candidate.setdefault(against.number, output.number)
    _reach_by_parts(one, other, of_reference, of_candidate, tolerance)
    _reach_by_parts(other, one, of_candidate, of_reference, tolerance)
    told = [frozenset(each.number for group in side.values() for each in group) for side in (one, other)]
    told[0] -= _fed_to_the_other(reference, told[0] - of_reference.keys(), candidate, tolerance)
    told[1] -= _fed_to_the_other(candidate, told[1] - of_candidate.keys(), reference, tolerance)
    return Reached(of_reference, of_candidate, (told[0], told[1]))


def _reach_by_parts(
    wholes: Map[int, list[_Output]],
    parts: Map[int, list[_Output]],
    of_wholes: dict[int, int],
    of_parts: dict[int, int],
    tolerance: float,
) -> None:
    """Adds what one side makes at once and the other part by part, as unrolled steps; every part has to be there."""
    for whole in (each for group in wholes.values() for each in group if each.number not in of_wholes):
        for size, among in parts.items():
            count, rest = divmod(whole.size, size)
            # Most are not even asked how they could be cut: one of the parts would have to hold the largest number.
            largest = whole.largest if not rest and 1 < count <= MOST_MADE_ALONE else float("nan")
            may_be = any(abs(each.largest - largest) <= tolerance * largest for each in among)
            found = (
                next((held for way in whole.cut(count) if (held := _held(way, among, tolerance))), []) if may_be else []
            )
            for number in found:
                of_wholes.setdefault(whole.number, number)
                of_parts.setdefault(number, whole.number)
            if found:
                break
        else:
            for each in _in_two(whole, parts, tolerance):
                of_wholes.setdefault(whole.number, each.number)
                of_parts.setdefault(each.number, whole.number)


def _in_two(whole: _Output, parts: Map[int, list[_Output]], tolerance: float) -> Sequence[_Output]:
    """The two outputs of unlike sizes that a whole is, one behind the other, as examples and several wrong ones of each."""
    for size in parts.keys() & {whole.size - size for size in parts}:
        firsts, seconds = parts[size], parts[whole.size - size]
        # Sizes add up, whatever the order: of all pairs one or none is looked at.
        sums = np.add.outer([each.sizes[0] for each in firsts], [each.sizes[0] for each in seconds])
        for one, two in np.argwhere(np.abs(sums - whole.sizes[0]) <= 8 * tolerance * whole.sizes[0]):
            cut = whole.split(size)
            if cut is None:
                break
            found = firsts[one], seconds[two]
            if all(own.holds(other, tolerance) for own, other in zip(cut, found, strict=True)):
                return found
    return ()


def _held(parts: Iterator[_Output], among: Sequence[_Output], tolerance: float) -> list[int]:
    """The numbers of outputs that hold the parts, each another one; empty where one of these none holds.

    One that holds all of them is broadcast to the whole, which is no part.
    """
    found = dict[int, None]()
    for part in parts:
        number = next((each.number for each in among if each.number not in found and each.holds(part, tolerance)), None)
        if number is None:
            return []
        found[number] = None
    return list(found)


def _fed_to_the_other(passed: Pass, numbers: Collection[int], other: Pass, tolerance: float) -> set[int]:
    """The ops that cut out of inputs what the other side is fed as it is: a shard, where towers have inputs of their own."""
    cut = {
        number: value
        for number in numbers
        if not passed.ops[number].inputs
        and not passed.ops[number].weights
        and (value := passed.value(number)) is not None
    }
    if not cut:
        return set()
    fed = [_Output(-1, value) for value in _inputs(other)]
    return {
        number
        for number, value in cut.items()
        if any(value.size == each.size and each.holds(_Output(number, value), tolerance) for each in fed)
    }


def _inputs(passed: Pass) -> Iterator[Array]:
    """Yields what ops take that is neither a weight nor an op's output."""
    for number, op in enumerate(passed.ops):
        for at, operand in enumerate(op.operands):
            value = passed.operand(number, at) if operand.op is None and operand.name not in op.weights else None
            if value is not None and _tells(value):
                yield value


def partners(reference: Pass, candidate: Pass, tolerance: float = TOLERANCE) -> dict[int, list[int]]:
    """Returns by op of the reference the numbers of all ops of the candidate with the same numbers.

    Args:
      reference: its pass.
      candidate: its own, made from the same weights on the same inputs.
      tolerance: as of `reach`.
    """
    one, other = _by_size(reference), _by_size(candidate)
    found = {
        output.number: [against.number for against in other[size] if output.holds(against, tolerance)]
        for size in one.keys() & other.keys()
        for output in one[size]
    }
    return {number: others for number, others in found.items() if others}


def alike(one: Array, other: Array, tolerance: float) -> bool:
    """Tells whether two arrays of one size and order hold the same numbers: the ones of a mask hide none of the others."""
    with np.errstate(invalid="ignore"):
        # Equal infinities are the same; their difference is no number. To an infinity no other number is near.
        apart = np.where(one == other, 0.0, np.abs(one - other))
        sizes = np.where(np.isfinite(one), np.abs(one), 0.0)
        # Beside each number the median: what cancels to nearly 0 is known to no more digits than its neighbours.
        return bool((apart <= tolerance * (sizes + _middle(one))).all())


def tolerance_for(relative: float) -> float:
    """Returns how near numbers have to be where a loss is off by a relative difference: small bugs are to be seen too."""
    return float(np.clip(relative * 1e-3, LEAST_TOLERANCE, TOLERANCE)) if np.isfinite(relative) else TOLERANCE


def tolerances_for(relative: float) -> Iterator[float]:
    """Yields how near numbers have to be, from `tolerance_for` down to what float64 leaves of equal functions.

    An output may hide much of what goes into it: a loss hardly depends on the last digits of a layer. Where the first
    tolerance shows nothing though something differs, a smaller one does.
    """
    tolerance = tolerance_for(relative)
    while tolerance > 1.5 * LEAST_TOLERANCE:
        yield tolerance
        tolerance /= FINER
    yield LEAST_TOLERANCE


def _middle(values: Array) -> float:
    """The median size of what is not zero, without the huge number that a mask has filled in."""
    # Without zeros: behind a ReLU they are half of the numbers, and would make the median 0.
    sizes = np.abs(values[(values != 0.0) & np.isfinite(values)])
    filled = _filled(sizes)
    sizes = sizes if filled is None else sizes[~filled]
    return float(np.median(sizes)) if len(sizes) else 0.0


def without_fill(value: Array) -> Array:
    """Returns scores with -inf wherever a mask has filled in a huge negative number: which one it is no softmax shows.

    Args:
      value: of any shape and dtype.
    """
    # The least first: of most outputs it ends here, at one pass over them.
    if value.dtype.kind != "f" or not value.size or not -np.inf < value.min() <= -HUGE or not np.isfinite(value).all():
        return value
    filled = _filled(np.abs(value))
    return value if filled is None or (value[filled] > 0.0).any() else np.where(filled, -np.inf, value)


def _filled(sizes: Array) -> Array | None:
    """Where a mask has filled in its number, by the sizes of all; None where there is no such number.

    Scores beside -1e9 where they are masked: more than `HUGE`, and ten times all others. Wherever a softmax sees both, these
    are 900 and more apart, and exp(-745) is the least that is not 0 in float64.
    """
    most = sizes.max(initial=0.0)
    filled = np.asarray(sizes >= (1.0 - FILLED) * most)
    others = sizes[~filled]
    return filled if most >= HUGE and others.size and others.max() <= DWARFED * most else None


def _by_size(passed: Pass) -> dict[int, list[_Output]]:
    groups: dict[int, list[_Output]] = defaultdict(list)
    for number in range(len(passed.ops)):
        value = passed.value(number)
        if value is None or not _tells(value):
            continue
        groups[value.size].append(_Output(number, value))
    return groups


def _tells(value: Array) -> bool:
    """Zeros and ones, counts and constants are alike in many places that have nothing to do with each other."""
    if value.dtype.kind != "f" or not value.size:
        return False
    # NaN tells: right outputs have none by chance.
    if np.isnan(value).any():
        return True
    finite = value[np.isfinite(value)]
    # Whole numbers are counts, labels and masks, alike in many places that have nothing to do with each other.
    return bool(len(finite) == 0 or ((finite != np.round(finite)).any() and (value.size == 1 or np.ptp(finite) > 0.0)))
