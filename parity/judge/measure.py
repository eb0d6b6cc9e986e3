"""Measures two large arrays in one pass over memory: what comparing traces spends its time on."""

import math
from typing import NamedTuple

import numpy as np

from parity.judge.numbers import BLOCK, SAFE, Array, distance, norm

# Squares that neither overflow nor vanish in float32, summed over a block of them.
SAFE32 = (1e-24, 1e24)


class Measured(NamedTuple):
    """What judging needs to know of a pair of arrays.

    Fields:
      size: norm of the first.
      difference: norm of the second minus the first.
      moved: norm of the first minus what it was before, or 0 where that is not asked for.
    """

    size: float
    difference: float
    moved: float = 0.0


def measure(one: Array, other: Array, before: Array | None = None) -> Measured | None:
    """Returns norms of two float arrays of one shape and dtype, or None where something in them is not finite.

    Float32 is subtracted in float32, which is exact where the two are within a factor of 2 of each other, and summed in
    float32 within blocks: norms are right to 1e-5 of themselves, small arrays' to 1e-15.

    Args:
      one: float array of any shape.
      other: another of the same shape and dtype.
      before: what `one` was before, likewise.
    """
    arrays = [one.reshape(-1), other.reshape(-1)]
    if before is not None:
        arrays.append(before.reshape(-1))
    with np.errstate(all="ignore"):
        sums = _of_float32(arrays) if one.dtype == np.float32 and one.size > BLOCK else _of_any(arrays)
    if not all(map(math.isfinite, sums)):
        return None if not all(np.isfinite(array).all() for array in arrays) else _carefully(one, other, before)
    # Squares of anything narrower than float64 cannot vanish in float64.
    low = SAFE[0] if one.dtype == np.float64 else -1.0
    if all(low < total < SAFE[1] for total in sums):
        return Measured(*(total**0.5 for total in sums))
    return _carefully(one, other, before)


def _carefully(one: Array, other: Array, before: Array | None) -> Measured:
    return Measured(norm(one), distance(one, other), distance(one, before) if before is not None else 0.0)


def _of_any(arrays: list[Array]) -> list[float]:
    totals = [0.0] * len(arrays)
    for begin in range(0, arrays[0].size, BLOCK):
        first, *others = (np.asarray(array[begin : begin + BLOCK], np.float64) for array in arrays)
        totals[0] += float(np.dot(first, first))
        for place, other in enumerate(others, start=1):
            apart = first - other
            totals[place] += float(np.dot(apart, apart))
    return totals


def _of_float32(arrays: list[Array]) -> list[float]:
    whole = arrays[0].size // BLOCK * BLOCK
    rows = [array[:whole].reshape(-1, BLOCK) for array in arrays]
    squares: list[list[np.float32]] = [[] for _ in arrays]
    room = np.empty(BLOCK, np.float32)
    keep, subtract = [found.append for found in squares], np.subtract
    # Unrolled: for 10,000 elements the loop itself would cost as much as the arithmetic.
    if len(rows) == 2:
        for piece, other in zip(*rows, strict=True):
            keep[0](piece.dot(piece))
            subtract(piece, other, room)
            keep[1](room.dot(room))
    else:
        for piece, other, before in zip(*rows, strict=True):
            keep[0](piece.dot(piece))
            subtract(piece, other, room)
            keep[1](room.dot(room))
            subtract(piece, before, room)
            keep[2](room.dot(room))
    rest = _of_any([array[whole:] for array in arrays])
    return [_total(found, rows[0], rows[place]) + rest[place] for place, found in enumerate(squares)]


def _total(squares: list[np.float32], first: Array, other: Array) -> float:
    known = np.array(squares, np.float64)
    for row in np.flatnonzero(~((known > SAFE32[0]) & (known < SAFE32[1]))):
        if other is first:
            apart = first[row].astype(np.float64)
        elif not (first[row] != other[row]).any():
            known[row] = 0.0
            continue
        else:
            apart = np.subtract(first[row], other[row], dtype=np.float64)
        known[row] = np.dot(apart, apart)
    return float(known.sum())
