"""Says what is done to the numbers that go into an op: multiplied and shifted, or broadcast against each other."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from parity.causes.evidence import CLOSE
from parity.judge.numbers import Array, norm
from parity.judge.result import Cause
from parity.locate.align import align

TELLING = 3  # different numbers from which on a line through them is no chance
SMALL = 1e-9  # of the numbers' size: what float64 leaves of a line's constant


class Line(NamedTuple):
    """What makes one array's numbers of another's: `factor * x + shift`."""

    factor: float
    shift: float


def line_between(before: Array, after: Array) -> Line | None:
    """Returns what each number of one array is multiplied by and shifted to give another's, whatever its layout, or None.

    Args:
      before: numbers of which at least three are different.
      after: as many.
    """
    x, y = np.asarray(before, np.float64), np.asarray(after, np.float64)
    if x.size != y.size or not np.isfinite(x).all() or not np.isfinite(y).all():
        return None
    spread = x.std(), y.std()
    if not all(spread) or len(np.unique(x.reshape(-1)[: 1 << 16])) < TELLING:
        return None
    for sign in (1.0, -1.0):
        pair = align((x - x.mean()) / spread[0], sign * (y - y.mean()) / spread[1])
        if pair is not None and pair.apart <= CLOSE:
            factor = sign * float(spread[1] / spread[0])
            shift = float(y.mean() - factor * x.mean())
            size = norm(y) / np.sqrt(y.size)
            return Line(factor, 0.0 if abs(shift) <= SMALL * size else shift)
    return None


def other_input(layer: str, before: Array, after: Array, lines: tuple[str, str]) -> Cause | None:
    """Returns the cause where a layer is given an input of another scale, or None.

    Args:
      layer: its name.
      before: what goes into it in the reference.
      after: what goes into it in the port.
      lines: of the port's source and of the reference's that are given it.
    """
    found = line_between(before, after)
    scaled = found is not None and abs(found.factor - 1.0) > SMALL
    if found is None or not (scaled or found.shift):
        return None
    done = [f"times {found.factor:.6g}"] * scaled + [f"plus {found.shift:.6g}"] * bool(found.shift)
    return Cause(
        "input_scale" if scaled else "input_shift",
        f"what goes into {layer} is the reference's {' '.join(done)} in the port: {lines[0]} / {lines[1]}",
        f"all {before.size:,} numbers that go in are the reference's {' '.join(done)}, to rounding",
        "scale and shift the inputs once, as the graph does",
    )


def broadcast(reference: Sequence[Array], candidate: Sequence[Array], made: int, name: str, lines: str) -> Cause | None:
    """Returns the cause where an op gives a number of every pair of what both sides' ops take one by one, or None.

    Args:
      reference: what the reference's op takes.
      candidate: what the port's op takes.
      made: how many numbers the port's op gives.
      name: of the cause.
      lines: of source, in words.
    """
    if len(reference) != 2 or len(candidate) != 2:
        return None
    own, other = [each.shape for each in reference], [each.shape for each in candidate]
    try:
        shapes = np.broadcast_shapes(*own), np.broadcast_shapes(*other)
    except ValueError:
        return None
    sizes = [int(np.prod(each)) for each in shapes]
    if sizes[0] != max(each.size for each in reference) or made != sizes[1] or sizes[1] <= sizes[0]:
        return None
    for pairs in (candidate, candidate[::-1]):
        if all(_same(one, two) for one, two in zip(reference, pairs, strict=True)):
            told = " against ".join(str(list(shape)) for shape in other)
            return Cause(
                name,
                f"the port broadcasts {told} to {list(shapes[1])}, where the reference has {list(shapes[0])}: {lines}",
                "the numbers that go in are the same on both sides, to rounding; an axis of size 1 pairs each with each",
                "take the axis of size 1 away before: squeeze(-1), or keep it on both",
            )
    return None


def _same(one: Array, other: Array) -> bool:
    if one.size != other.size or one.dtype.kind not in "fiub" or other.dtype.kind not in "fiub":
        return False
    wanted, got = (np.asarray(each, np.float64).reshape(-1) for each in (one, other))
    return bool(norm(got - wanted) <= CLOSE * norm(wanted))
