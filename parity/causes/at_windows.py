"""Computes a convolution or a pooling again with its windows elsewhere: padding, kernel turned, mean for maximum."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from parity.causes.evidence import CLOSE, LEFT
from parity.judge.numbers import Array, norm
from parity.judge.result import Cause

CONVOLUTIONS = frozenset(["Conv2D", "DepthwiseConv2dNative"])
POOLINGS = {"MaxPool": "maximum", "AvgPool": "mean"}
FIX = (
    "pad as SAME does: evenly, the odd one at the end (torch_ddp.like_tf.Conv2d and MaxPool2d, or pad_same before them)"
)


class Windows(NamedTuple):
    """An op over windows of an image whose output differs, though its input and kernel do not.

    Fields:
      name: of its layer.
      kind: of the op, e.g. "Conv2D".
      image: ``[n, h, w, c]``, what it takes.
      kernel: ``[kh, kw, c, out]`` or, of a depthwise one, ``[kh, kw, c, multiplier]``; None of a pooling.
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


class _Way(NamedTuple):
    # A way of computing it, in words and as it is done.
    words: str
    kernel: Array | None
    kind: str
    top: int
    left: int
    counts_padding: bool


def other_windows(op: Windows) -> Cause | None:
    """Returns the cause where the op with other windows gives the candidate's output, or None."""
    shapes_fit = op.image.ndim == 4 and op.reference.ndim == 4 and op.reference.shape == op.candidate.shape
    if (
        not shapes_fit
        or (op.kind in CONVOLUTIONS) == (op.kernel is None)
        or op.kind not in CONVOLUTIONS | POOLINGS.keys()
    ):
        return None
    first = op._replace(image=op.image[:1], reference=op.reference[:1], candidate=op.candidate[:1])
    own = next((way for way in _ways(op) if _near(_computed(first, way), first.reference)), None)
    if own is None:
        return None
    for way in _ways(op):
        if _near(_computed(first, way), first.candidate) and _explains(_computed(op, way), op):
            return _cause(op, own, way)
    return None


def _ways(op: Windows) -> Iterator[_Way]:
    high, wide = _size(op)
    kernels: list[tuple[str, Array | None]] = [("", op.kernel)]
    if op.kernel is not None:
        kernels.append(("with its kernel turned by half a turn", op.kernel[::-1, ::-1]))
        if high == wide:
            kernels.append(("with rows and columns of its kernel exchanged", op.kernel.transpose(1, 0, 2, 3)))
    kinds = [op.kind] if op.kernel is not None else [op.kind, *(POOLINGS.keys() - {op.kind})]
    for kind in kinds:
        for words, kernel in kernels:
            for top in range(high):
                for left in range(wide):
                    yield _Way(words, kernel, kind, top, left, False)
                    if kind == "AvgPool" and (top or left):
                        yield _Way("counting the padding", kernel, kind, top, left, True)


def _size(op: Windows) -> tuple[int, int]:
    if op.kernel is not None:
        return op.kernel.shape[0], op.kernel.shape[1]
    ksize = op.attributes.get("ksize", [1, 1, 1, 1])
    return int(ksize[1]), int(ksize[2])


def _computed(op: Windows, way: _Way) -> Array:
    windows, inside = _windows(op, way, op.image, 0.0), None
    if way.kernel is not None:
        if op.kind == "Conv2D":
            return np.tensordot(windows, way.kernel, axes=([3, 4, 5], [2, 0, 1]))
        made = np.einsum("nhwcij,ijcm->nhwcm", windows, way.kernel, optimize=True)
        return np.asarray(made.reshape(*made.shape[:3], -1))
    if way.kind == "MaxPool":
        return np.asarray(_windows(op, way, op.image, -np.inf).max(axis=(4, 5)))
    inside = _windows(op, way, np.ones_like(op.image), 1.0 if way.counts_padding else 0.0)
    return np.asarray(windows.sum(axis=(4, 5)) / np.maximum(inside.sum(axis=(4, 5)), 1.0))


def _windows(op: Windows, way: _Way, image: Array, outside: float) -> Array:
    """The windows of the output's size, ``[n, h', w', c, kh, kw]``, of an image with as much around it as that takes."""
    size = _size(op)
    strides = [int(each) for each in op.attributes.get("strides", [1, 1, 1, 1])][1:3]
    pads = []
    for axis, start in enumerate((way.top, way.left)):
        needed = (op.reference.shape[1 + axis] - 1) * strides[axis] + size[axis]
        pads.append((start, max(0, needed - start - image.shape[1 + axis])))
    padded = np.pad(image, [(0, 0), *pads, (0, 0)], constant_values=outside)
    every = sliding_window_view(padded, size, axis=(1, 2))[:, :: strides[0], :: strides[1]]
    return np.asarray(every[:, : op.reference.shape[1], : op.reference.shape[2]])


def _near(made: Array, wanted: Array) -> bool:
    return made.shape == wanted.shape and norm(made - wanted) <= CLOSE * norm(wanted)


def _explains(made: Array, op: Windows) -> bool:
    left, apart = norm(made - op.candidate), norm(op.reference - op.candidate)
    return left <= LEFT * apart and left <= CLOSE * norm(op.candidate)


def _cause(op: Windows, own: _Way, way: _Way) -> Cause:
    evidence = f"computed so from what goes in, which is the same on both sides, {op.name} gives the candidate's output"
    if way.kind != own.kind:
        what = (
            f"{op.name} takes the {POOLINGS[way.kind]} of each window in the candidate, the {POOLINGS[own.kind]} in the"
        )
        return Cause(
            "pooling", f"{what} reference", evidence, "pool as the graph does: max_pool or avg_pool on both sides"
        )
    if way.words:
        what = f"{op.name} is computed {way.words} in the candidate"
        if op.kernel is None:
            return Cause("pooling", what, evidence, "count_include_pad=False")
        return Cause("transposed_kernel", what, evidence, "carry the kernel over with its rows and columns as they are")
    there, here = (f"{each.top} above and {each.left} to the left" for each in (way, own))
    return Cause(
        "padding", f"{op.name} pads {there} of the image in the candidate, {here} in the reference", evidence, FIX
    )
