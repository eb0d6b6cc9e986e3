"""Says in words where in a layer's output two sides differ: which examples, rows, channels, the border, the zeros."""

import numpy as np

from parity.locate.matching import TOLERANCE
from parity.trace.arrays import Array

AXES_OF_OUTPUT = {
    1: ("element",),
    2: ("example", "unit"),
    3: ("example", "step", "unit"),
    4: ("example", "row", "column", "channel"),
}
MOST_LISTED = 6


def where_apart(reference: Array, candidate: Array) -> str:
    """Returns where two outputs of one shape differ, in words.

    Args:
      reference: float array, ``[example, ...]``, channels last.
      candidate: the same of the other side.
    """
    apart = _apart(reference, candidate)
    count = int(apart.sum())
    if not count:
        return "nowhere by more than rounding"
    found = [*_of_the_values(reference, candidate, apart), *_of_the_axes(apart)]
    share = f"{count:,} of {apart.size:,} values differ"
    return f"{share}, {'; '.join(found)}" if found else share


def _apart(reference: Array, candidate: Array) -> Array:
    sizes = np.abs(reference[np.isfinite(reference) & (reference != 0.0)])
    # Without zeros, as `matching` has it: behind a ReLU they would make the median 0.
    scale = float(np.median(sizes)) if sizes.size else 1.0
    # To an infinity nothing is near: the last line asks whether the two are equal.
    with np.errstate(invalid="ignore"):
        near = np.isfinite(reference) & (np.abs(reference - candidate) <= TOLERANCE * (np.abs(reference) + scale))
    return np.asarray(~near & (reference != candidate))


def _of_the_values(reference: Array, candidate: Array, apart: Array) -> list[str]:
    told = []
    for sign, name in ((reference == 0.0, "zero"), (reference < 0.0, "negative"), (reference > 0.0, "positive")):
        # All that differs has this sign in the reference, and numbers of another sign are there too.
        if not (apart & ~sign).any() and not sign.all():
            which = "all" if apart[sign].all() else "some"
            told.append(f"{which} of those that are {name} in the reference, and no others")
    # Zeros in places of its own, as a mask or a dropout leaves them.
    if (candidate[apart] == 0.0).all() and not (candidate == 0.0).all():
        told.append("where the port has 0")
    return told[:1]


def _of_the_axes(apart: Array) -> list[str]:
    names = AXES_OF_OUTPUT.get(apart.ndim, tuple(f"axis {axis}" for axis in range(apart.ndim)))
    told = []
    border = _border(apart)
    if border:
        return [f"only within {border} of the border of the image"]
    for axis, name in enumerate(names):
        others = tuple(other for other in range(apart.ndim) if other != axis)
        # (axis,): where along one axis anything differs.
        places = np.flatnonzero(apart.any(axis=others))
        if len(places) < apart.shape[axis]:
            told.append(f"only in {name} {_listed(places)} of {apart.shape[axis]}")
    return told


def _border(apart: Array) -> int:
    """How far from the border of an image two sides differ, 0 where they do so inside too."""
    if apart.ndim != 4:
        return 0
    high, wide = apart.shape[1:3]  # (n, h, w, c)
    # From the outside in: the first depth behind which nothing differs.
    for depth in range(1, (min(high, wide) - 1) // 2):
        if not apart[:, depth : high - depth, depth : wide - depth].any():
            return depth
    return 0


def _listed(places: Array) -> str:
    if len(places) > 2 and (np.diff(places) == 1).all():
        return f"{places[0]} to {places[-1]}"
    shown = ", ".join(str(place) for place in places[:MOST_LISTED])
    return shown + (", ..." if len(places) > MOST_LISTED else "")
