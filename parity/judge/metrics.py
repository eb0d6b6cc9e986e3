"""Measures how far two arrays are apart."""

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from parity.trace.arrays import BLOCK as BLOCK
from parity.trace.arrays import SAFE as SAFE
from parity.trace.arrays import Array, norm_of_difference
from parity.trace.arrays import norm as norm

FEW = 16


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
    return norm_of_difference(first, second)


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
