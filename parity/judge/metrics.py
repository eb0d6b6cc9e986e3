"""Measures how far two arrays are apart."""

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from parity.trace.arrays import Array

# Elements that stay in the cache between being read and being squared. A dot product of more than 10,000 starts threads,
# which wait for each other for seconds where others run too.
BLOCK = 9984
FEW = 16
# A square below 2.2e-308 vanishes: beside a sum of 1e-280 it is 2e-28 of it. One that overflows is infinite.
SAFE = (1e-280, 1e300)  # sums of squares of which none overflowed and none that matters vanished


class Worst(NamedTuple):
    """The element at which two arrays differ most.

    Fields:
      index: its place, in the reference's layout.
      reference, candidate: the two values.
      max_abs: their absolute difference.
      max_rel: the same over the reference's magnitude; infinite where that is zero.
      ulp: the same in units in the last place of the coarser dtype of the two at the reference's value.
    """

    index: tuple[int, ...]  # type: ignore[assignment]
    reference: float
    candidate: float
    max_abs: float
    max_rel: float
    ulp: float


def norm(array: Array) -> float:
    """Returns the Euclidean norm over all elements, summed in float64; scaled where squares would overflow or vanish."""
    flat = np.asarray(array).ravel()
    # In blocks, for a dot product of 10,016 elements starts threads: 1.2 s of a processor for 5,000 of them, 0.01 s for
    # 5,000 of 9,984 (OpenBLAS 0.3.31, two busy cores).
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        # Invariant: `total` is the sum of squares up to `begin`. Norms of 200,000 elements were right to 5.6e-16 in 50
        # draws.
        total = sum(_square(flat[begin : begin + BLOCK]) for begin in range(0, flat.size, BLOCK))
    return math.sqrt(total) if SAFE[0] < total < SAFE[1] else _scaled_norm(flat)


def distance(one: Array, other: Array) -> float:
    """Returns the norm of the difference, taken in float64; infinity of arrays whose shapes do not broadcast."""
    first, second = np.asarray(one), np.asarray(other)
    # In files of several runs, or of several steps, one name may be that of arrays of any shape.
    if first.shape != second.shape and not _broadcast(first.shape, second.shape):
        return math.inf
    # Arrays of unlike shapes are broadcast, which a flat view cannot be.
    if first.size <= BLOCK or first.shape != second.shape:
        with np.errstate(invalid="ignore"):
            return norm(np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64))
    first, second = first.ravel(), second.ravel()
    total = 0.0
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for begin in range(0, first.size, BLOCK):
            piece = slice(begin, begin + BLOCK)
            # Block by block, so that the difference of two large arrays is never in memory as a whole.
            total += _square(np.subtract(first[piece], second[piece], dtype=np.float64))
        return (
            math.sqrt(total)
            if SAFE[0] < total < SAFE[1]
            else _scaled_norm(np.subtract(first, second, dtype=np.float64))
        )


def _broadcast(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(one, other)
    except ValueError:
        return False
    return True


def is_finite(array: Array) -> bool:
    """Returns whether all elements are numbers, none infinite."""
    return bool(np.isfinite(array).all())


def is_constant(array: Array) -> bool:
    """Returns whether several elements are all one number; most arrays answer from the first few."""
    flat = np.asarray(array).ravel()
    # The first 16 decide for nearly every array, and spare reading the rest.
    return flat.size > 1 and bool((flat[:FEW] == flat[0]).all() and (flat == flat[0]).all())


def _square(piece: Array) -> float:
    wide = np.asarray(piece, dtype=np.float64)
    return float(np.dot(wide, wide))


def _scaled_norm(flat: Array) -> float:
    wide = np.abs(np.asarray(flat, dtype=np.float64))
    largest = float(np.max(wide)) if wide.size else 0.0
    # Infinity and NaN are their own norm; scaling by them would make NaN of infinity.
    if largest == 0.0 or not np.isfinite(largest):
        return largest
    scaled = wide / largest
    # Every |x| / largest is at most 1: the sum lies between 1 and the number of elements. einsum starts no threads.
    return largest * math.sqrt(float(np.einsum("i,i->", scaled, scaled)))


def worst(reference: Array, candidate: Array) -> Worst:
    """Returns the element at which two arrays of one shape differ most; a non-finite one before any other."""
    one = np.asarray(reference, dtype=np.float64)
    other = np.asarray(candidate, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        difference = np.abs(one - other)
    # Finite on one side only is as far apart as can be; not finite on both is NaN, which the next line puts last.
    difference = np.where(np.isfinite(one) == np.isfinite(other), difference, np.inf)
    place = np.unravel_index(int(np.argmax(np.nan_to_num(difference, nan=-1.0, posinf=np.inf))), one.shape)
    index = tuple(int(part) for part in place)
    value, found, apart = float(one[index]), float(other[index]), float(difference[index])
    # The coarser of the two types: float32 against float64 is told in ulps of float32.
    spacing = max(_spacing(reference, value), _spacing(candidate, value))
    relative = apart / abs(value) if value else (np.inf if apart else 0.0)
    return Worst(index, value, found, apart, relative, apart / spacing if np.isfinite(value) else np.inf)


@functools.cache
def unit_roundoff(dtype: Any) -> float:
    """Returns the unit roundoff of a float dtype, half the spacing at 1: 2^-53 for float64, 2^-24 for float32."""
    return float(np.finfo(dtype).eps) / 2


def _spacing(array: Array, value: float) -> float:
    dtype = array.dtype if array.dtype.kind == "f" else np.dtype(np.float64)
    # At the reference's value: near a power of 2 the candidate's may have another spacing.
    return float(np.spacing(np.abs(np.asarray(value, dtype=dtype))))
