"""Tells which outputs of a forward pass the other side's pass reaches: the same numbers, in whatever order of axes."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from parity.judge.numbers import Array
from parity.trace import ForwardOp

TOLERANCE = 1e-10
LEAST_TOLERANCE = 1e-13
Value = Callable[[int], Array | None]


class Pass(NamedTuple):
    """A forward pass.

    Fields:
      ops: in an order of execution.
      value: returns the output of an op, None where it is not known.
    """

    ops: Sequence[ForwardOp]
    value: Value


class Reached(NamedTuple):
    """What is known of the outputs of both sides.

    Fields:
      reference: by op, the number of an op of the candidate with the same numbers.
      candidate: by op of the candidate, the number of such an op of the reference.
      told: by side, the numbers of the ops whose output tells: it is known, and no output that many ops give.
    """

    reference: dict[int, int]
    candidate: dict[int, int]
    told: tuple[frozenset[int], frozenset[int]]


class _Sorted(NamedTuple):
    number: int
    values: Array


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
    for size in one.keys() & other.keys():
        for output in one[size]:
            for against in other[size]:
                if output.number in of_reference and against.number in of_candidate:
                    continue
                if alike(output.values, against.values, tolerance):
                    of_reference.setdefault(output.number, against.number)
                    of_candidate.setdefault(against.number, output.number)
    told = tuple(frozenset(each.number for group in side.values() for each in group) for side in (one, other))
    return Reached(of_reference, of_candidate, (told[0], told[1]))


def alike(one: Array, other: Array, tolerance: float) -> bool:
    """Tells whether two sorted arrays of one size hold the same numbers."""
    middle = len(one) // 2
    scale = abs(float(one[middle]))
    if not abs(float(other[middle]) - float(one[middle])) <= 1e3 * tolerance * (scale + _scale(one)):
        return False
    with np.errstate(invalid="ignore"):
        apart = np.where(one == other, 0.0, np.abs(one - other))
        return bool((apart <= tolerance * (np.abs(one) + _scale(one))).all())


def tolerance_for(relative: float) -> float:
    """Returns how near numbers have to be where a loss is off by a relative difference: small bugs are to be seen too."""
    return float(np.clip(relative * 1e-3, LEAST_TOLERANCE, TOLERANCE)) if np.isfinite(relative) else TOLERANCE


def _scale(values: Array) -> float:
    sizes = np.abs(values[(values != 0.0) & np.isfinite(values)])
    return float(np.median(sizes)) if len(sizes) else 0.0


def _by_size(passed: Pass) -> dict[int, list[_Sorted]]:
    groups: dict[int, list[_Sorted]] = defaultdict(list)
    for number in range(len(passed.ops)):
        value = passed.value(number)
        if value is None or not _tells(value):
            continue
        groups[value.size].append(_Sorted(number, np.sort(value, axis=None)))
    return groups


def _tells(value: Array) -> bool:
    """Zeros and ones, counts and constants are alike in many places that have nothing to do with each other."""
    if value.dtype.kind != "f" or not value.size or np.isnan(value).all():
        return False
    finite = value[np.isfinite(value)]
    return bool(len(finite) == 0 or ((finite != np.round(finite)).any() and (value.size == 1 or np.ptp(finite) > 0.0)))
