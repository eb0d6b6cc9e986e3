"""Single changes of what goes over windows, its output as large as before.

A convolution or a pooling is padded on other sides, a kernel dilated otherwise, a mean taken for a maximum.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from parity.diagnose.agreement import same_values
from parity.diagnose.edits.edit import At, Edit
from parity.diagnose.ops.forward_pass import RecomputedPass, Taken
from parity.diagnose.ops.table import plain
from parity.diagnose.ops.windows import Pads, TooLarge, convolved, pads_from, pooled, work
from parity.trace.arrays import Array

ZERO_PADDING = frozenset(["pad", "padv2", "constant_pad_nd"])
# Of the padding in all: TensorFlow's SAME has the odd one behind, torch's padding= as many on both sides.
SPLITS = ("odd one behind", "odd one in front", "in front", "behind")
# How a graph dilates: what is convolved between these two is no image any more.
BLOCKS, OUT_OF_BLOCKS = "spacetobatchnd", "batchtospacend"
FUNCTIONS_OF_POOLINGS = {"maxpool": "maximum", "avgpool": "mean"}
DILATIONS = (1, 2, 3, 4, 6, 8)


class _Convolution(NamedTuple):
    """A convolution of an image that is not padded yet, channels last.

    Fields:
      image: ``[n, *spatial, c]``.
      kernel: ``[*sizes, c / groups, out]``.
      strides, sizes: by spatial axis: of the windows, and of the output.
      groups: of channels.
      output: what it gives.
      first: whether channels are first in the pass.
    """

    image: Array
    kernel: Array
    strides: Sequence[int]
    sizes: Sequence[int]
    groups: int
    output: Array
    first: bool

    def done(self, dilation: int, split: str) -> Array | None:
        """Its output with another dilation and padding; None where that is too much to compute."""
        pads, dilations = self.pads(dilation, split), [dilation] * len(self.sizes)
        try:
            made = convolved(self.image, self.kernel, self.strides, pads, dilations, self.groups)
            return made[(slice(None), *(slice(size) for size in self.sizes))]
        except (TooLarge, ValueError):
            return None

    def pads(self, dilation: int, split: str) -> Pads:
        """Rows and columns in front and behind, by where the odd one goes, or all of them."""
        found = []
        for axis, size in enumerate(self.sizes):
            span = (self.kernel.shape[axis] - 1) * dilation + 1
            # n' = (n + pad - span) // stride + 1, solved for the least padding that gives the output's size n'.
            total = (size - 1) * self.strides[axis] + span - self.image.shape[1 + axis]
            total = max(total, 0)  # what a stride leaves over is not seen
            front = {
                "odd one behind": total // 2,
                "odd one in front": total - total // 2,
                "in front": total,
                "behind": 0,
            }
            found.append((front[split], total - front[split]))
        return found


def window_edits(at: At) -> Iterator[Edit]:
    """Yields the changes of a convolution's padding and dilation, or of a pooling's padding and function.

    Args:
      at: the op.
    """
    yield from _pooled_otherwise(at)
    given = _convolution(at)
    if given is None:
        return
    own: tuple[int, str] | None = None
    made: dict[tuple[int, str], Array] = {}
    # The reference's own way is found as the first that gives its output: attributes need not say how a port padded.
    for way in ((dilation, split) for dilation in DILATIONS for split in SPLITS):
        at.run.work += work("conv", [given.image.shape, given.kernel.shape], given.output.size)
        value = given.done(*way)
        if value is None or value.shape != given.output.shape:
            continue
        made[way] = value
        own = own or (way if same_values(given.output, value) else None)
    for way, value in made.items() if own is not None else ():
        if own is not None and not same_values(given.output, value):
            name = "dilation" if way[0] != own[0] else "padding"
            words = (_words(given, *each) for each in (own, way))
            yield from at.edit(np.moveaxis(value, -1, 1) if given.first else value, name, *words)


def _pooled_otherwise(at: At) -> Iterator[Edit]:
    """A pooling's windows begin elsewhere, it takes the mean and not the maximum, or counts the padding in a mean."""
    name, attributes = at.kind.replace("_", "").rstrip("123d"), at.run.ops[at.number].attributes
    sizes = attributes.get("ksize", attributes.get("1", attributes.get("kernel_size")))
    if name not in FUNCTIONS_OF_POOLINGS or sizes is None:
        return
    image = _unpadded(at.run, at.taken[0])
    spatial, of_graph = image.ndim - 2, "ksize" in attributes
    if spatial < 1 or at.output.ndim != image.ndim:
        return
    image, output = (each if of_graph else np.moveaxis(each, 1, -1) for each in (image, at.output))
    strides = attributes.get("strides", attributes.get("2", attributes.get("stride"))) or sizes
    windows, steps = (_by_axis(each, spatial, of_graph) for each in (sizes, strides))
    outputs: dict[tuple[str, int, bool], Array] = {}
    for kind, start, counts in product(FUNCTIONS_OF_POOLINGS, range(max(windows)), (False, True)):
        if counts and kind == "maxpool":
            continue
        starts = [min(start, window - 1) for window in windows]
        pads = pads_from(starts, image.shape[1:-1], output.shape[1:-1], windows, steps)
        at.run.work += output.size * math.prod(windows)
        value = pooled(image, windows, steps, pads, kind == "avgpool", counts)
        value = value[(slice(None), *(slice(size) for size in output.shape[1:-1]))]
        if value.shape == output.shape:
            outputs[kind, start, counts] = value
    # Its own kind first: of one number throughout, mean and maximum are the same.
    own = next(
        (way for way in sorted(outputs, key=lambda each: each[0] != name) if same_values(output, outputs[way])), None
    )
    for way, value in outputs.items() if own is not None else ():
        if own is not None and not same_values(output, value):
            cause = "padding" if (way[0], way[2]) == (own[0], own[2]) else "pooling"
            words = (_words_of_pooling(*each) for each in (own, way))
            yield from at.edit(value if of_graph else np.moveaxis(value, -1, 1), cause, *words)


def _by_axis(value: Any, spatial: int, of_graph: bool) -> list[int]:
    """Sizes or strides by spatial axis: of a graph there are those of examples and channels around them."""
    given = [int(each) for each in np.atleast_1d(np.asarray(value))]
    return given[1:-1] if of_graph else [int(each) for each in np.broadcast_to(given, (spatial,))]


def _words_of_pooling(kind: str, start: int, counts: bool) -> str:
    padding = f" {start} in front of the first place" if start else " at the first place"
    return (
        f"takes the {FUNCTIONS_OF_POOLINGS[kind]} of windows that begin{padding}{', padding counted' if counts else ''}"
    )


def _words(given: _Convolution, dilation: int, split: str) -> str:
    each = ", ".join(f"{front} and {behind}" for front, behind in given.pads(dilation, split))
    return f"convolves with {each} rows in front and behind{f', dilated by {dilation}' if dilation > 1 else ''}"


def _convolution(at: At) -> _Convolution | None:
    """The op as a convolution of what is not padded yet, None where it is none."""
    if at.kind == OUT_OF_BLOCKS:
        return _in_blocks(at)
    of_graph = at.kind in ("conv2d", "conv3d") and "strides" in at.run.ops[at.number].attributes
    kernels = [each.value for each in at.taken if each.source is None and each.value.ndim > 2]
    if not at.kind.startswith(("conv1d", "conv2d", "conv3d")) or len(at.taken) != 2 or len(kernels) != 1:
        return None
    data, attributes = at.taken[0], at.run.ops[at.number].attributes
    image = _unpadded(at.run, data)
    spatial = image.ndim - 2
    in_blocks = data.source is not None and plain(at.run.ops[data.source].kind) == BLOCKS
    if data.value.ndim != kernels[0].ndim or spatial < 1 or in_blocks:
        return None
    kernel = np.asarray(kernels[0], np.float64)
    if of_graph:
        strides = [int(each) for each in attributes["strides"]][1:-1]
        groups = image.shape[-1] // kernel.shape[-2]
        return _Convolution(image, kernel, strides, at.output.shape[1:-1], groups, at.output, False)
    if "3" not in attributes or "6" not in attributes:
        return None
    strides = [int(each) for each in np.broadcast_to(attributes["3"], (spatial,))]
    image, output = np.moveaxis(image, 1, -1), np.moveaxis(at.output, 1, -1)
    # torch has [out, c, *sizes] and channels first; all that is computed here has a graph's order.
    turned = np.moveaxis(kernel, (0, 1), (-1, -2))
    return _Convolution(image, turned, strides, output.shape[1:-1], int(attributes["6"]), output, True)


def _in_blocks(at: At) -> _Convolution | None:
    """The last of the three ops of a dilated convolution as the whole of it."""
    ops = at.run.ops
    number = at.taken[0].source
    taken = at.run.takes(number) if number is not None else None
    if number is None or taken is None or len(taken) != 2 or "strides" not in ops[number].attributes:
        return None
    source = taken[0].source
    whole = at.run.takes(source) if source is not None and plain(ops[source].kind) == BLOCKS else None
    if whole is None or set(ops[number].attributes["strides"]) != {1}:
        return None
    image = _unpadded(at.run, whole[0])
    kernel: Array = np.asarray(taken[1].value, np.float64)
    if plain(ops[number].kind) == "depthwiseconv2dnative":
        kernel = kernel.reshape(*kernel.shape[:2], 1, -1)  # (kh, kw, c, multiplier): a group for each channel
    # A sequence is convolved as an image of one row.
    more = kernel.ndim - image.ndim
    if more < 0 or set(kernel.shape[:more]) - {1} or at.output.ndim != image.ndim:
        return None
    kernel = kernel.reshape(kernel.shape[more:])
    strides, groups = [1] * (image.ndim - 2), image.shape[-1] // kernel.shape[-2]
    return _Convolution(image, kernel, strides, at.output.shape[1:-1], groups, at.output, False)


def _unpadded(run: RecomputedPass, data: Taken) -> Array:
    """What goes into an op, without the padding that an op of its own puts around it."""
    padding = data.source is not None and plain(run.ops[data.source].kind) in ZERO_PADDING
    taken = run.takes(data.source) if padding and data.source is not None else None
    padded = run.output(data.source) if taken is not None and data.source is not None else None
    if taken is None or padded is None:
        return np.asarray(data.value, np.float64)
    if taken[0].value.ndim == data.value.ndim:
        return np.asarray(taken[0].value, np.float64)
    # A sequence is convolved as an image of one row: `tf.nn.conv1d` puts the axis in behind the padding.
    for axis in range(data.value.ndim):
        if data.value.ndim == padded.ndim + 1 and np.expand_dims(padded, axis).shape == data.value.shape:
            return np.asarray(np.expand_dims(taken[0].value, axis), np.float64)
    return np.asarray(data.value, np.float64)
