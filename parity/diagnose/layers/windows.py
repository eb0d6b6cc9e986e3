"""Computes a convolution or a pooling again with its windows elsewhere: padding, kernel turned, mean for maximum."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from parity.diagnose.agreement import reproduces, same_values
from parity.diagnose.catalogue import build_cause
from parity.diagnose.layers.other_rules import is_held
from parity.diagnose.ops.windows import MOST_MULTIPLICATIONS, convolved, pads_from, pooled, spread
from parity.judge.result import Cause
from parity.trace.arrays import Array

TRANSPOSED = "Conv2DBackpropInput"
CONVOLUTIONS = frozenset(["Conv2D", "DepthwiseConv2dNative", TRANSPOSED])
OTHER_DILATIONS = (2, 3, 4, 6)
POOLINGS = {"MaxPool": "maximum", "AvgPool": "mean"}


class Windows(NamedTuple):
    """An op over windows of an image whose output differs, though its input and kernel do not.

    Fields:
      name: of its layer.
      kind: of the op, e.g. "Conv2D".
      image: ``[n, h, w, c]``, what it takes.
      kernel: ``[kh, kw, c, out]``, of a depthwise one ``[kh, kw, c, multiplier]``, of a transposed one
        ``[kh, kw, out, c]``; None of a pooling.
      attributes: of the op: `strides`, of a pooling `ksize`.
      reference, candidate: ``[n, h', w', out]``, what it gives.
    """

    name: str
    kind: str
    image: Array
    kernel: Array | None
    attributes: dict[str, Any]
    reference: Array
    candidate: Array


def goes_in(image: Array, kind: str, kernel: Array | None) -> bool:
    """Returns whether an image has as many channels as an op's kernel takes.

    Args:
      image: of any shape.
      kind: of the op.
      kernel: as in `Windows`.
    """
    if image.ndim != 4 or (kernel is not None and kernel.ndim != 4):
        return False
    # A transposed kernel is (kh, kw, out, in): the image's channels are its last axis.
    return kernel is None or image.shape[3] == kernel.shape[3 if kind == TRANSPOSED else 2]


class _Way(NamedTuple):
    # A way of computing it, in words and as it is done.
    words: str
    kernel: Array | None
    kind: str
    top: int
    left: int
    counts_padding: bool
    dilation: int = 1


def other_windows(op: Windows) -> Cause | None:
    """Returns the cause where the op with other windows gives the candidate's output, or None."""
    if not _has_windows(op) or op.reference.shape != op.candidate.shape:
        return None
    # One example tells which rule it is; the others only confirm the one that was found.
    first, ways = (
        op._replace(image=op.image[:1], reference=op.reference[:1], candidate=op.candidate[:1]),
        list(_ways(op)),
    )
    # All of it is computed anew: a budget of multiplications, so that no diagnosis takes minutes.
    if _work(first, ways) > MOST_MULTIPLICATIONS:
        return None
    # The first that gives the reference: a symmetric kernel turned is the same, and the plain one comes first.
    own = next((way for way in ways if same_values(first.reference, _computed(first, way))), None)
    if own is None:
        return None
    for way in ways:
        told = same_values(first.candidate, _computed(first, way))
        # Of all examples now, and to what differs of them.
        if told and reproduces(_computed(op, way), op.reference, op.candidate):
            return _cause(op, own, way)
    return None


def windows_among(op: Windows, beyond: Sequence[Array], bias: Array | None = None) -> Cause | None:
    """Returns the cause where the op with other windows gives one of some outputs of the candidate, or None.

    Args:
      op: its `candidate` does not matter.
      beyond: outputs of the candidate that the reference never has, examples first, in whatever order of axes.
      bias: ``[out]``, which the candidate may have added already.
    """
    if not _has_windows(op):
        return None
    count = len(op.image)
    first = op._replace(image=op.image[:1], reference=op.reference[:1], candidate=op.reference[:1])
    # Outputs of the port in whatever layout, cut to one example: as many numbers as the op gives, per example.
    alike = [each[:1] for each in beyond if each.ndim and len(each) == count and each.size == op.reference.size]
    ways = [*_ways(op), *_dilated(op)]
    if not alike or _work(first, ways) > MOST_MULTIPLICATIONS:
        return None
    own = next((way for way in ways if same_values(first.reference, _computed(first, way))), None)
    if own is None:
        return None
    for way in ways:
        made = _computed(first, way)
        # The port may have added the bias in one op with the convolution.
        added = [made] if bias is None or bias.shape != made.shape[-1:] else [made, made + bias]
        # Another rule may give the reference's own numbers in another order: that is no other rule.
        if any(is_held(each, alike) for each in added) and not is_held(made, [first.reference]):
            return _cause(op, own, way)
    return None


def _has_windows(op: Windows) -> bool:
    """Whether an op is a convolution with a kernel, or a pooling without one, of images that go into it."""
    kinds = POOLINGS if op.kernel is None else CONVOLUTIONS
    return op.kind in kinds and op.reference.ndim == 4 and goes_in(op.image, op.kind, op.kernel)


def _dilated(op: Windows) -> Iterator[_Way]:
    if op.kind in ("Conv2D", "DepthwiseConv2dNative"):
        size = max(_size(op))
        # Of a kernel of one element no dilation shows.
        for dilation in OTHER_DILATIONS if size > 1 else ():
            # (size - 1) dilation + 1 places are covered, so that as many zeros may stand in front.
            for start in range((size - 1) * dilation + 1):
                yield _Way("", op.kernel, op.kind, start, start, False, dilation)


def _ways(op: Windows) -> Iterator[_Way]:
    high, wide = _size(op)
    kernels: list[tuple[str, Array | None]] = [("", op.kernel)]
    if op.kernel is not None:
        kernels.append(("with its kernel turned by half a turn", op.kernel[::-1, ::-1]))
        if high == wide:
            kernels.append(("with rows and columns of its kernel exchanged", op.kernel.transpose(1, 0, 2, 3)))
    # A pooling may be the other one; a convolution's kind follows from its kernel.
    kinds = [op.kind] if op.kernel is not None else [op.kind, *(POOLINGS.keys() - {op.kind})]
    for kind in kinds:
        for words, kernel in kernels:
            # Padding above and to the left from 0 to the size of the window: more would begin in nothing but padding.
            for top in range(high):
                for left in range(wide):
                    yield _Way(words, kernel, kind, top, left, False)
                    # torch counts zeros of the padding in a mean unless told otherwise, TensorFlow never does.
                    if kind == "AvgPool":
                        yield _Way("counting the padding", kernel, kind, top, left, True)


def _work(op: Windows, ways: Sequence[_Way]) -> float:
    """How many multiplications it takes to compute an op in some ways: the kernel at every place of what it goes over."""
    high, wide = (op.image if op.kind == TRANSPOSED else op.reference).shape[1:3]
    # One multiplication for each element of the kernel at every place of the output; of a transposed one of the input.
    size = op.kernel.size if op.kernel is not None else int(np.prod(_size(op))) * op.image.shape[3]
    return float(len(ways) * len(op.image) * high * wide * size)


def _size(op: Windows) -> tuple[int, int]:
    if op.kernel is not None:
        return op.kernel.shape[0], op.kernel.shape[1]
    ksize = op.attributes.get("ksize", [1, 1, 1, 1])
    # ksize is [1, rows, columns, 1], as strides are.
    return int(ksize[1]), int(ksize[2])


def _computed(op: Windows, way: _Way) -> Array:
    """The op's output with its windows elsewhere: as much around the image as that takes."""
    # Of [1, rows, columns, 1], as a graph writes them, the two in the middle.
    strides = [int(each) for each in op.attributes.get("strides", [1, 1, 1, 1])][1:3]
    size, sizes, kernel = _size(op), op.reference.shape[1:3], way.kernel
    if kernel is not None and op.kind == TRANSPOSED:
        return spread(op.image, kernel, strides, (way.top, way.left), sizes, most=math.inf)
    covered = [(each - 1) * way.dilation + 1 for each in size]
    pads = pads_from((way.top, way.left), op.image.shape[1:3], sizes, covered, strides)
    if kernel is None:
        made = pooled(op.image, size, strides, pads, way.kind == "AvgPool", way.counts_padding)
    else:
        # Depthwise: a group for each channel, whose kernels are side by side on the last axis.
        # (kh, kw, c, multiplier) as c groups of (kh, kw, 1, multiplier).
        groups = op.image.shape[3] if op.kind == "DepthwiseConv2dNative" else 1
        one_by_one = kernel.reshape(*kernel.shape[:2], 1, -1) if groups > 1 else kernel
        made = convolved(op.image, one_by_one, strides, pads, [way.dilation] * 2, groups, most=math.inf)
    # As many as the reference has: with other padding a window more may fit at the end.
    return made[:, : sizes[0], : sizes[1]]


def _cause(op: Windows, own: _Way, way: _Way) -> Cause:
    evidence = f"computed so from what goes in, which is the same on both sides, {op.name} gives the candidate's output"
    if way.kind != own.kind:
        kinds = POOLINGS[way.kind], POOLINGS[own.kind]
        return build_cause("pooling", "kind", evidence=evidence, layer=op.name, other=kinds[0], own=kinds[1])
    if way.words:
        name, variant = ("pooling", "padding counted") if op.kernel is None else ("transposed_kernel", "windows")
        return build_cause(name, variant, evidence=evidence, layer=op.name, words=way.words)
    if way.dilation != own.dilation:
        return build_cause("dilation", evidence=evidence, layer=op.name, other=way.dilation, own=own.dilation)
    there, here = (f"{each.top} above and {each.left} to the left" for each in (way, own))
    variant = "transposed" if op.kind == TRANSPOSED else ""
    return build_cause("padding", variant, evidence=evidence, layer=op.name, there=there, here=here)
