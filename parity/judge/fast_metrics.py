"""Measures two large arrays in one pass over memory: what comparing traces spends its time on."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from parity.judge.metrics import BLOCK, SAFE, distance, norm
from parity.trace.arrays import Array
from parity.trace.checksum import Part

# Squares that neither overflow nor vanish in float32, summed over a block of them.
# A square below 1.2e-38 loses bits in float32: a block of such is 1e-10 of a sum of 1e-24. One that overflows is
# infinite. Blocks outside are summed again in float64.
SAFE32 = (1e-24, 1e24)
WIDE = (np.dtype(np.float32), np.dtype(np.float64))
GROUP = 8  # blocks that are subtracted at once: with those of both arrays they stay in the cache
LINE = 64  # bytes of a line of the cache: a vector across two of them is read twice


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


def fused_norms(one: Array, other: Array, before: Array | None = None, parts: Sequence[Part] = ()) -> Measured | None:
    """Returns norms of two float arrays of one shape and dtype, or None where something in them is not finite.

    Float32 is subtracted in float32, which is exact where the two are within a factor of 2 of each other, and summed in
    float32 within blocks: norms are right to 1e-5 of themselves, small arrays' to 1e-15.

    Args:
      one: float array of any shape.
      other: another of the same shape and dtype.
      before: what `one` was before, likewise.
      parts: of `one` or `other`, to be combined from the cache.
    """
    arrays = [one.ravel(), other.ravel()]
    if before is not None:
        arrays.append(before.ravel())
    # What overflows or is NaN shows in the sums, and is looked at then: asking before would read everything twice.
    with np.errstate(all="ignore"):
        sums = _of_blocks(arrays, parts) if one.dtype in WIDE and one.size > BLOCK else _of_any(arrays)
    # A sum that is not finite means an element that is not, or squares that overflowed: the second is measured with
    # care.
    if not all(map(math.isfinite, sums)):
        return None if not all(np.isfinite(array).all() for array in arrays) else _carefully(one, other, before)
    # Squares of anything narrower than float64 cannot vanish in float64.
    # A float32 square is at least 2e-90 in float64: a sum of 0 is one of zeros then, and no sum has to be taken again.
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


def _of_blocks(arrays: list[Array], parts: Sequence[Part]) -> list[float]:
    # The rest behind the last whole block is measured by itself.
    blocks = arrays[0].size // BLOCK
    grouped = blocks // GROUP * GROUP
    totals = _of_any([array[blocks * BLOCK :] for array in arrays])
    for begin, end, group in ((0, grouped, GROUP), (grouped, blocks, blocks - grouped)):
        if begin < end:
            # (groups, blocks of a group, BLOCK), a view.
            groups = [array[begin * BLOCK : end * BLOCK].reshape(-1, group, BLOCK) for array in arrays]
            for place, squares in enumerate(_squares(groups, parts, begin * BLOCK * groups[0].itemsize)):
                totals[place] += _total(squares, groups[0], groups[place])
    return totals


def _squares(groups: list[Array], parts: Sequence[Part], begin: int) -> list[Array]:
    # What is subtracted stays in the cache for the products. Those are one for each block, which is as long as a product
    # may be, but one call for a group: for 10,000 elements the calls would cost as much as the arithmetic.
    # For each group a row times a column of every block: (blocks, 1, BLOCK) @ (blocks, BLOCK, 1).
    first, size = groups[0], groups[0].shape[1]
    found = [np.empty((len(first), size, 1, 1), first.dtype) for _ in groups]
    # One room for all differences: a new array for each group would not be in the cache yet.
    apart = _room(size, first.dtype)
    wide, tall = apart[:, None, :], apart[:, :, None]
    rows, columns = first[:, :, None, :], first[:, :, :, None]
    for place, piece in enumerate(first):
        for others, squares in zip(groups[1:], found[1:], strict=True):
            np.subtract(piece, others[place], apart)
            np.matmul(wide, tall, squares[place])
        np.matmul(rows[place], columns[place], found[0][place])
        for part in parts:
            part.read_to(begin + (place + 1) * piece.nbytes)
    return found


def _room(blocks: int, dtype: "np.dtype[Any]") -> Array:
    size = blocks * BLOCK * dtype.itemsize
    # numpy may begin an array in the middle of a line: room for one more is asked for, and begun at the next.
    raw = np.empty(size + LINE, np.uint8)
    begin = -raw.__array_interface__["data"][0] % LINE
    return raw[begin : begin + size].view(dtype).reshape(blocks, BLOCK)


def _total(squares: Array, first: Array, other: Array) -> float:
    # (blocks,): float32 sums within a block, float64 among blocks. Norms were right to 6e-8 in 50 pairs of 200,000.
    known = squares.ravel().astype(np.float64)
    if squares.dtype == np.float64:
        return float(known.sum())
    one, two = first.reshape(-1, BLOCK), other.reshape(-1, BLOCK)
    for block in np.flatnonzero(~((known > SAFE32[0]) & (known < SAFE32[1]))):
        # A block of zeros is no block of vanished squares: of equal blocks nothing has to be summed again.
        if other is first:
            apart = one[block].astype(np.float64)
        elif not (one[block] != two[block]).any():
            known[block] = 0.0
            continue
        else:
            apart = np.subtract(one[block], two[block], dtype=np.float64)
        known[block] = np.dot(apart, apart)
    return float(known.sum())
