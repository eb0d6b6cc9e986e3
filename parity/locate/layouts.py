"""Puts an output of the candidate into the layout of the reference's: the order of axes that leaves them nearest."""

from collections.abc import Iterator
from itertools import permutations
from typing import NamedTuple

import numpy as np

from parity.locate.matching import alike
from parity.trace.arrays import Array

MOST_ALIGNED = 5  # 120 orders of axes


class Aligned(NamedTuple):
    """Two outputs in one layout.

    Fields:
      reference, candidate: float64 arrays of the reference's shape.
      apart: norm of their difference, relative to the larger norm.
    """

    reference: Array
    candidate: Array
    apart: float


def align(reference: Array, candidate: Array) -> Aligned | None:
    """Returns two outputs in the reference's layout; None where no order of axes makes the shapes fit.

    Args:
      reference: of any shape.
      candidate: of as many elements; axes of size 1, and axes that are one on one side and two on the other, do not count.
    """
    if reference.size != candidate.size or candidate.ndim > MOST_ALIGNED:
        return None
    wanted, got = np.asarray(reference, np.float64), np.asarray(candidate, np.float64)
    best: Aligned | None = None
    # Of all orders that fit the nearest one: a bug leaves outputs nearer in their own layout than in any other.
    for turned in layouts(got, wanted.shape):
        apart = _apart(wanted, turned)
        if best is None or apart < best.apart:
            best = Aligned(wanted, turned, apart)
    return best


def same_in_some_layout(reference: Array, candidate: Array, close: float) -> bool:
    """Returns whether two arrays hold the same numbers in the same order, for some order of their axes.

    Args:
      reference: of any shape.
      candidate: of any shape.
      close: how near they have to be, relative.
    """
    if reference.size != candidate.size or not all(each.dtype.kind in "fiub" for each in (reference, candidate)):
        return False
    arrays = [np.asarray(each, np.float64) for each in (reference, candidate)]
    # Sorting costs n log n; up to 120 orders of axes cost as many passes.
    if not alike(np.sort(arrays[0], axis=None), np.sort(arrays[1], axis=None), close):
        return False  # in no order at all, which is told sooner
    pair = align(arrays[0], arrays[1])
    return pair is not None and pair.apart <= close


def layouts(given: Array, shape: tuple[int, ...]) -> Iterator[Array]:
    """Yields an array in every order of its axes in which it has a shape, neighbouring axes joined or taken apart.

    Args:
      given: as many numbers as the shape holds.
      shape: that is wanted.
    """
    for order in permutations(range(given.ndim)):
        turned = given.transpose(order)
        if _fits(shape, turned.shape):
            yield turned.reshape(shape)


def _fits(wanted: tuple[int, ...], got: tuple[int, ...]) -> bool:
    """Whether one shape is the other with neighbouring axes joined, or with axes of size 1 put in."""
    # Without axes of 1 the longer shape is the finer: (2, 3, 4) joined is (6, 4) or (2, 12), and no (3, 8).
    fine, coarse = sorted(([n for n in shape if n != 1] for shape in (wanted, got)), key=len, reverse=True)
    place = 0
    for size in coarse:
        # `place` axes of the finer shape are used up; each coarse axis takes as many more as multiply to it.
        product = 1
        while product < size and place < len(fine):
            product *= fine[place]
            place += 1
        if product != size:
            return False
    return place == len(fine)


def _apart(wanted: Array, got: Array) -> float:
    # What is infinite on one side, as -inf of a mask, says nothing of the rest.
    finite = np.isfinite(wanted) & np.isfinite(got)
    if not finite.any():
        return float("inf")
    # Of the larger norm, so that both sides give the same; 1e-300 for two outputs of zeros.
    size = max(float(np.linalg.norm(wanted[finite])), float(np.linalg.norm(got[finite])), 1e-300)
    return float(np.linalg.norm(wanted[finite] - got[finite])) / size
