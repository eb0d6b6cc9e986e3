"""Says what is done to the numbers that go into an op: scaled, turned, not read at all, or broadcast against each other."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from parity.diagnose.agreement import CLOSE, alike, same_in_order
from parity.diagnose.catalogue import build_cause
from parity.diagnose.fitting import different_numbers
from parity.diagnose.layers.products import INNER_AXES
from parity.judge.metrics import is_constant, norm
from parity.judge.result import Cause
from parity.locate.layouts import align
from parity.locate.rearranged import FEWEST_MOVED
from parity.trace.arrays import Array

FEWEST_ON_A_LINE = 3  # different numbers: through two there always is a line
ROUNDING_OF_CONSTANT = 1e-9  # of the numbers' size: what float64 leaves of a line's constant


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
    # Among the first 65,536 numbers: three different ones are found there, or nearly all are one.
    if not all(spread) or len(np.unique(x.reshape(-1)[: 1 << 16])) < FEWEST_ON_A_LINE:
        return None
    # y = f x + s with f below 0 turns the order of numbers round: then -y follows x.
    for sign in (1.0, -1.0):
        # Mean 0 and deviation 1 on both sides: y = f x + s leaves nothing else, whatever f and s are.
        pair = align((x - x.mean()) / spread[0], sign * (y - y.mean()) / spread[1])
        if pair is not None and pair.apart <= CLOSE:
            # std(y) = |f| std(x), whatever s is.
            factor = sign * float(spread[1] / spread[0])
            shift = float(y.mean() - factor * x.mean())
            size = norm(y) / np.sqrt(y.size)
            return Line(factor, 0.0 if abs(shift) <= ROUNDING_OF_CONSTANT * size else shift)
    return None


class Read(NamedTuple):
    """An input as each side reads it at one place.

    Fields:
      name: of the input.
      layer: what reads it, in words.
      reference: ``[example, ...]`` as the graph has it, channels last.
      candidate: arrays of as many numbers that the port may read in its place, in its own layout.
      lines: of source that read it, of the port's and of the reference's, in words; "" where they are not known.
      first: whether nothing but inputs goes in there; else a layer does, too.
    """

    name: str
    layer: str
    reference: Array
    candidate: Sequence[Array]
    lines: str = ""
    first: bool = True

    def cause(self, name: str, variant: str, evidence: str, **fields: Any) -> Cause:
        """Returns what it is called that something is done to it, and where."""
        where = f": {self.lines}" if self.lines else ""
        return build_cause(name, variant, evidence=evidence, input=self.name, layer=self.layer, where=where, **fields)


def other_input(read: Read) -> Cause | None:
    """Returns the cause where what the port reads is the input with one thing done to it, or is no input; None elsewhere."""
    own = np.asarray(read.reference, np.float64)
    if not np.isfinite(own).all() or own.ndim < 1:
        return None
    layouts = [[*_laid_out(np.asarray(each, np.float64), own)] for each in read.candidate]
    # What is read as it is is not read otherwise, whatever else the op takes.
    if any(norm(each - own) <= ROUNDING_OF_CONSTANT * norm(own) for group in layouts for each in group):
        return None
    # An op may take several arrays of as many numbers, and nothing says which of them stands for the input.
    for other in (each for group in layouts for each in group if np.isfinite(each).all()):
        cause = None
        # Behind a layer a factor may be the layer's own; one number in place of an input is no layer's.
        if not read.first:
            cause = _unread(read, own, other)
        else:
            cause = _arranged(read, own, other) or _scaled(read, own, other)
        if cause is not None:
            return cause
    return None


def _laid_out(other: Array, own: Array) -> Iterator[Array]:
    """Yields an array in the layout of the input: as it is, of images also from channels first."""
    if other.size != own.size:
        return
    if other.ndim == 4 and own.ndim == 4:
        # (n, c, h, w) of torch to (n, h, w, c).
        images = other.transpose(0, 2, 3, 1)
        yield from (each.reshape(own.shape) for each in (images, other) if _fits(each, own))
    else:
        yield other.reshape(own.shape)


def _fits(images: Array, own: Array) -> bool:
    """Whether images have the shape of others, but for rows and columns."""
    # [::3] is examples and channels; rows and columns may be exchanged, which `_arrangements` names.
    return images.shape[::3] == own.shape[::3] and sorted(images.shape[1:3]) == sorted(own.shape[1:3])


def _unread(read: Read, own: Array, other: Array) -> Cause | None:
    if not is_constant(other) or alike([own]):
        return None
    value = float(other.reshape(-1)[0])
    return read.cause(
        "input_ignored",
        "read",
        f"what it reads there is one number, {value:g}, {other.size:,} times; in the reference it is {read.name}, and all "
        "else that goes in is the same",
        value=value,
    )


def _arranged(read: Read, own: Array, other: Array) -> Cause | None:
    if different_numbers(own) < FEWEST_MOVED:
        return None
    text = f"so changed it is what goes into {read.layer} in the port, to rounding"
    for name, axis, made in _arrangements(own):
        if norm(made.reshape(other.shape) - other) <= CLOSE * norm(other) < math.inf:
            return read.cause(name, "read", text, axis=axis)
    return None


def _arrangements(own: Array) -> Iterator[tuple[str, str, Array]]:
    names = INNER_AXES.get(own.ndim, tuple(f"axis {axis}" for axis in range(1, own.ndim)))
    if own.ndim == 4:
        yield "transposed_input", "", own.transpose(0, 2, 1, 3)  # rows and columns exchanged
    # Axis 0 is the examples: another order of these has detectors of its own.
    for axis, name in enumerate(names, start=1):
        if own.shape[axis] > 1:
            yield "reversed_input", f"the {name}" if own.ndim > 2 else name, np.flip(own, axis)


def _scaled(read: Read, own: Array, other: Array) -> Cause | None:
    """A factor, or a shift, or both."""
    line = line_between(own, other)
    scaled = line is not None and abs(line.factor - 1.0) > ROUNDING_OF_CONSTANT
    if line is None or not (scaled or line.shift):
        return None
    return read.cause(
        "input_scale" if scaled else "input_shift",
        "read, and shift" if scaled and line.shift else "read",
        f"all {own.size:,} numbers that go in there are those of the reference, so changed, to rounding",
        factor=line.factor,
        shift=line.shift,
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
    # (n,) against (n, 1) makes (n, n): a number for every pair of examples.
    sizes = [int(np.prod(each)) for each in shapes]
    # The reference pairs one with one, so that it gives as many as its larger input has.
    if sizes[0] != max(each.size for each in reference) or made != sizes[1] or sizes[1] <= sizes[0]:
        return None
    for pairs in (candidate, candidate[::-1]):
        if all(same_in_order(one, two) for one, two in zip(reference, pairs, strict=True)):
            # The port's shapes: they are what pairs each with each.
            told = " against ".join(str(list(shape)) for shape in other)
            return build_cause(
                name,
                "broadcast",
                evidence="the numbers that go in are the same on both sides, to rounding; an axis of size 1 "
                "pairs each with each",
                told=told,
                got=list(shapes[1]),
                wanted=list(shapes[0]),
                lines=lines,
            )
    return None
