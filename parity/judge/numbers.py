"""Measures how far two arrays are apart."""

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


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
    """Returns the Euclidean norm over all elements, summed in float64; scaled so that it cannot overflow."""
    flat = np.asarray(array, dtype=np.float64).reshape(-1)
    largest = float(np.max(np.abs(flat))) if flat.size else 0.0
    if largest == 0.0 or not np.isfinite(largest):
        return largest
    if 1e-140 < largest < 1e140:
        return float(np.sqrt(np.dot(flat, flat)))
    scaled = flat / largest
    return largest * float(np.sqrt(np.dot(scaled, scaled)))


def distance(one: Array, other: Array) -> float:
    """Returns the norm of the difference, taken in float64."""
    return norm(np.asarray(one, dtype=np.float64) - np.asarray(other, dtype=np.float64))


def worst(reference: Array, candidate: Array) -> Worst:
    """Returns the element at which two arrays of one shape differ most; a non-finite one before any other."""
    one = np.asarray(reference, dtype=np.float64)
    other = np.asarray(candidate, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        difference = np.abs(one - other)
    difference = np.where(np.isfinite(one) == np.isfinite(other), difference, np.inf)
    place = np.unravel_index(int(np.argmax(np.nan_to_num(difference, nan=-1.0, posinf=np.inf))), one.shape)
    index = tuple(int(part) for part in place)
    value, found, apart = float(one[index]), float(other[index]), float(difference[index])
    spacing = max(_spacing(reference, value), _spacing(candidate, value))
    relative = apart / abs(value) if value else (np.inf if apart else 0.0)
    return Worst(index, value, found, apart, relative, apart / spacing if np.isfinite(value) else np.inf)


def unit_roundoff(dtype: Any) -> float:
    """Returns the unit roundoff of a float dtype, half the spacing at 1: 2^-53 for float64, 2^-24 for float32."""
    return float(np.finfo(dtype).eps) / 2


def _spacing(array: Array, value: float) -> float:
    dtype = array.dtype if array.dtype.kind == "f" else np.dtype(np.float64)
    return float(np.spacing(np.abs(np.asarray(value, dtype=dtype))))
