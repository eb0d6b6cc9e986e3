"""Convolutions, poolings and padding of graphs and of torch as functions of arrays, over any number of spatial axes."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from parity.diagnose.ops.resize import bilinear
from parity.trace.arrays import Array

Arguments = Sequence[Any]
Attributes = Mapping[str, Any]
Pads = list[tuple[int, int]]
MOST_PRODUCTS = 200_000_000  # of one call: 0.3 s of one processor for a 3 x 3 convolution of 32 channels to 64
MOST_MULTIPLICATIONS = 1e10  # for all rules of one layer; chosen to end within seconds
BIASES = ("", " without bias")
MODES = {
    "constant": "constant",
    "CONSTANT": "constant",
    "reflect": "reflect",
    "REFLECT": "reflect",
    "SYMMETRIC": "symmetric",
    "replicate": "edge",
    "circular": "wrap",
}
PER_PRODUCT = 0.05  # of the work that a number of an elementwise op is: a BLAS does many products in the time of one


class TooLarge(ValueError):
    """An op would take too many multiplications."""


def work(op_kind: str, shapes: Sequence[Sequence[int]], output: int) -> int:
    """Returns how much work an op is, in numbers of an elementwise one.

    Args:
      op_kind: in lower case.
      shapes: of what it takes.
      output: how many numbers it gives.
    """
    if not op_kind.startswith(("conv", "depthwise")) or len(shapes) < 2 or len(shapes[1]) < 3:
        return output
    return int(PER_PRODUCT * output * math.prod(shapes[1]) / max(max(shapes[1][0], shapes[1][-1]), 1)) + output


def convolved(
    x: Array,
    kernel: Array,
    strides: Sequence[int],
    pads: Pads,
    dilations: Sequence[int],
    groups: int,
    most: float = MOST_PRODUCTS,
) -> Array:
    """Returns a convolution.

    Args:
      x: ``[n, *spatial, c]``.
      kernel: ``[*sizes, c / groups, out]``.
      strides: by spatial axis.
      dilations: by spatial axis.
      pads: before and behind each spatial axis.
      groups: of channels.
      most: multiplications.

    Returns:
      ``[n, *spatial', out]``.

    Raises:
      TooLarge: it would take too many multiplications.
    """
    axes = range(1, x.ndim - 1)
    # Windows as wide as the dilated kernel, of which every dilation-th place is taken.
    spans = [(size - 1) * step + 1 for size, step in zip(kernel.shape, dilations, strict=False)]
    windows = sliding_window_view(np.pad(x, [(0, 0), *pads, (0, 0)]), spans, axis=tuple(axes))
    every: list[Any] = [slice(None, None, step) for step in strides]
    inside: list[Any] = [slice(None, None, step) for step in dilations]
    windows = windows[(slice(None), *every, slice(None), *inside)]  # [n, *spatial', c, *sizes]
    # Views so far: only the product takes memory and time.
    if math.prod(windows.shape) // groups * kernel.shape[-1] > most:
        raise TooLarge
    made, count = [], len(axes)
    for part, own in zip(np.split(windows, groups, count + 1), np.split(kernel, groups, -1), strict=True):
        over = [count + 1, *range(count + 2, 2 * count + 2)], [count, *range(count)]
        # [n, *spatial', c / groups, *sizes] by [*sizes, c / groups, out / groups], over channels and places.
        made.append(np.tensordot(part, own, axes=over))
    return np.concatenate(made, -1)


def spread(
    x: Array,
    kernel: Array,
    strides: Sequence[int],
    cut: Sequence[int],
    sizes: Sequence[int],
    most: float = MOST_PRODUCTS,
) -> Array:
    """Returns a transposed convolution: every pixel spread by the kernel.

    Args:
      x: ``[n, *spatial, c]``.
      kernel: ``[*sizes, out, c]``.
      strides: by spatial axis.
      cut: how many rows, columns, ... are cut off in front.
      sizes: of the output's spatial axes.
      most: multiplications.

    Raises:
      TooLarge: it would take too many multiplications.
    """
    axes = range(len(strides))
    if x.size * kernel.size // kernel.shape[-1] > most:
        raise TooLarge
    spans = [(x.shape[1 + axis] - 1) * strides[axis] + 1 for axis in axes]
    room = [max(cut[axis] + sizes[axis], spans[axis] + kernel.shape[axis] - 1) for axis in axes]
    # [n, *spatial', out], as large as what is cut off needs it.
    made = np.zeros((len(x), *room, kernel.shape[-2]))
    # The transpose of a convolution: every place of the kernel adds the image to the output, strides apart.
    for place in np.ndindex(*kernel.shape[:-2]):
        each = np.tensordot(x, kernel[place], axes=([-1], [1]))
        made[(slice(None), *(slice(place[a], place[a] + spans[a], strides[a]) for a in axes))] += each
    return made[(slice(None), *(slice(cut[axis], cut[axis] + sizes[axis]) for axis in axes))]


def _same_pads(sizes: Sequence[int], windows: Sequence[int], strides: Sequence[int]) -> Pads:
    pads = []
    for size, window, step in zip(sizes, windows, strides, strict=True):
        # SAME: ceil(n / stride) windows, the odd row behind; tensorflow/core/framework/common_shape_fns.cc.
        needed = max((math.ceil(size / step) - 1) * step + window - size, 0)
        pads.append((needed // 2, needed - needed // 2))
    return pads


def _in_graph(
    attributes: Attributes, spatial: Sequence[int], windows: Sequence[int]
) -> tuple[list[int], Pads, list[int]]:
    """Strides, padding and dilations of a graph's op, channels last."""
    if str(attributes.get("data_format", "NHWC")).startswith("NC"):
        raise ValueError
    strides = [int(each) for each in attributes["strides"]][1:-1]
    dilations = [int(each) for each in attributes.get("dilations", [1] * (len(strides) + 2))][1:-1]
    spans = [(size - 1) * step + 1 for size, step in zip(windows, dilations, strict=True)]
    same = attributes["padding"] == "SAME"
    pads = _same_pads(spatial, spans, strides) if same else [(0, 0)] * len(strides)
    return strides, pads, dilations


def _graph_convolution(arguments: Arguments, attributes: Attributes) -> Array:
    x, kernel = (np.asarray(each, np.float64) for each in arguments[:2])
    strides, pads, dilations = _in_graph(attributes, x.shape[1:-1], kernel.shape[:-2])
    return convolved(x, kernel, strides, pads, dilations, x.shape[-1] // kernel.shape[-2])


def _graph_depthwise(arguments: Arguments, attributes: Attributes) -> Array:
    x, kernel = (np.asarray(each, np.float64) for each in arguments[:2])
    strides, pads, dilations = _in_graph(attributes, x.shape[1:-1], kernel.shape[:-2])
    # [h, w, c, m] as c groups with m outputs each: channel by channel, the multiplier innermost.
    one_by_one = kernel.reshape(*kernel.shape[:-2], 1, -1)
    return convolved(x, one_by_one, strides, pads, dilations, x.shape[-1])


def _graph_transposed(arguments: Arguments, attributes: Attributes) -> Array:
    shape, kernel, x = (np.asarray(each) for each in arguments[:3])
    sizes = [int(each) for each in shape][1:-1]
    strides, pads, dilations = _in_graph(attributes, sizes, kernel.shape[:-2])
    if set(dilations) != {1}:
        raise ValueError
    return spread(x.astype(np.float64), kernel.astype(np.float64), strides, [before for before, _ in pads], sizes)


def _each(value: Any, count: int) -> list[int]:
    """One number for every axis, or one for each."""
    given = [int(part) for part in np.atleast_1d(np.asarray(value))]
    return given * count if len(given) == 1 else given


def _last(x: Array) -> Array:
    return np.moveaxis(x, 1, -1)


def _first(x: Array) -> Array:
    return np.moveaxis(x, -1, 1)


def _convolution(arguments: Arguments, attributes: Attributes) -> Array:
    """What is convolved or, where that was done before in torch, has a bias added; or both."""
    if "strides" in attributes:
        return _graph_convolution(arguments, attributes)
    made = np.asarray(arguments[0], np.float64)
    for each in arguments[1:]:
        array = np.asarray(each, np.float64)
        if array.ndim == 1:
            made = made + array.reshape(-1, *[1] * (made.ndim - 2))
            continue
        count = made.ndim - 2
        # By their places in torch.conv2d: 3 stride, 4 padding, 5 dilation, 6 groups.
        strides, paddings, dilations = (_each(attributes[key], count) for key in ("3", "4", "5"))
        # torch has [out, c / groups, *sizes].
        kernel = np.moveaxis(array, (0, 1), (-1, -2))
        pads = [(each, each) for each in paddings]
        made = _first(convolved(_last(made), kernel, strides, pads, dilations, int(attributes["6"])))
    return made


def _transposed_convolution(arguments: Arguments, attributes: Attributes) -> Array:
    made = np.asarray(arguments[0], np.float64)
    for each in arguments[1:]:
        array = np.asarray(each, np.float64)
        if array.ndim == 1:
            made = made + array.reshape(-1, *[1] * (made.ndim - 2))
            continue
        count = made.ndim - 2
        strides, paddings, further, dilations = (_each(attributes[key], count) for key in ("3", "4", "5", "7"))
        if int(attributes["6"]) != 1 or set(dilations) != {1}:
            raise ValueError
        kernel, spatial = np.moveaxis(array, (0, 1), (-1, -2)), made.shape[2:]
        # n' = (n - 1) stride + kernel - 2 padding + output_padding, without a dilation.
        sizes = [
            (spatial[axis] - 1) * strides[axis] + kernel.shape[axis] - 2 * paddings[axis] + further[axis]
            for axis in range(count)
        ]
        made = _first(spread(_last(made), kernel, strides, paddings, sizes))
    return made


def pads_from(
    starts: Sequence[int],
    image: Sequence[int],
    output: Sequence[int],
    windows: Sequence[int],
    strides: Sequence[int],
) -> Pads:
    """Returns the padding of windows that begin so far in front of an image, and as much behind it as the last one needs.

    Args:
      starts: by spatial axis, as all others: places in front of the first.
      image: its sizes.
      output: the sizes of what the windows give.
      windows: sizes of what one window covers.
      strides: of the windows.
    """
    axes = zip(starts, image, output, windows, strides, strict=True)
    return [(start, max((made - 1) * step + window - start - size, 0)) for start, size, made, window, step in axes]


def pooled(x: Array, windows: Sequence[int], strides: Sequence[int], pads: Pads, mean: bool, counts: bool) -> Array:
    """Returns the maximum or the mean of each window.

    Args:
      x: ``[n, *spatial, c]``.
      windows: their sizes by spatial axis.
      strides: by spatial axis.
      pads: before and behind each spatial axis.
      mean: of each window, rather than its maximum.
      counts: whether the padding counts in a mean.
    """
    axes = tuple(range(1, x.ndim - 1))
    around, steps = [(0, 0), *pads, (0, 0)], (slice(None), *(slice(None, None, step) for step in strides))
    over = tuple(range(-len(axes), 0))

    def every(values: Array, outside: float) -> Array:
        padded = np.pad(values, around, constant_values=outside)
        return np.asarray(sliding_window_view(padded, list(windows), axis=axes)[steps])

    if not mean:
        return np.asarray(every(x, -np.inf).max(over))
    # How many places of a window lie in the image; never 0 but where all of one is padding.
    inside = every(np.ones_like(x), 1.0 if counts else 0.0).sum(over)
    return np.asarray(every(x, 0.0).sum(over) / np.maximum(inside, 1.0))


def _graph_pooling(mean: bool) -> Callable[[Arguments, Attributes], Array]:
    def pooling(arguments: Arguments, attributes: Attributes) -> Array:
        x = np.asarray(arguments[0], np.float64)
        windows = [int(each) for each in attributes["ksize"]][1:-1]
        strides, pads, _ = _in_graph(attributes, x.shape[1:-1], windows)
        return pooled(x, windows, strides, pads, mean, False)

    return pooling


def _up(size: int, window: int, step: int, padding: int) -> tuple[int, int]:
    """Padding where the last window may reach beyond the border, as long as it begins inside."""
    count = math.ceil((size + 2 * padding - window) / step) + 1
    # torch/aten/src/ATen/native/Pool.h: the last window is dropped where it would begin behind the image and its left
    # padding.
    count -= (count - 1) * step >= size + padding
    return padding, max((count - 1) * step + window - size - padding, padding)


def _pooling(mean: bool) -> Callable[[Arguments, Attributes], Array]:
    def pooling(arguments: Arguments, attributes: Attributes) -> Array:
        x = _last(np.asarray(arguments[0], np.float64))
        count = x.ndim - 2
        windows = _each(attributes["1"] if "1" in attributes else attributes["kernel_size"], count)
        given = attributes.get("2", attributes.get("stride"))
        strides = _each(given, count) if given not in (None, []) else windows
        paddings = _each(attributes.get("3", attributes.get("padding", 0)), count)
        up = attributes.get("4" if mean else "5", attributes.get("ceil_mode", False))
        dilation = 1 if mean else attributes.get("4", attributes.get("dilation", 1))
        if (up and mean) or set(_each(dilation, count)) != {1}:
            raise ValueError
        pads = [(each, each) for each in paddings]
        if up:
            pads = [_up(*each) for each in zip(x.shape[1:-1], windows, strides, paddings, strict=True)]
        counts = bool(attributes.get("5", attributes.get("count_include_pad", True)))
        return _first(pooled(x, windows, strides, pads, mean, counts))

    return pooling


def _pooled_to_one(mean: bool) -> Callable[[Arguments, Attributes], Array]:
    def pooling(arguments: Arguments, attributes: Attributes) -> Array:
        x = np.asarray(arguments[0], np.float64)
        if set(_each(attributes.get("1", attributes.get("output_size")), 1)) != {1}:
            raise ValueError
        axes = tuple(range(2, x.ndim))
        return np.asarray((x.mean if mean else x.max)(axes, keepdims=True))

    return pooling


def _padded(arguments: Arguments, attributes: Attributes) -> Array:
    """Torch counts from the last axis, a graph has a row for each."""
    x, given = np.asarray(arguments[0]), arguments[1] if len(arguments) > 1 else attributes.get("pad")
    rows, further = np.asarray(given).astype(int), [*arguments[2:4], None, None]
    if rows.ndim == 2:
        mode, filled = attributes.get("mode", "CONSTANT"), further[0]
    else:
        mode, filled = attributes.get("mode", further[0] or "constant"), attributes.get("value", further[1])
        # (axes, 2): pairs from the last axis on, turned round, with none for the axes in front.
        rows = np.concatenate([np.zeros((x.ndim - rows.size // 2, 2), int), rows.reshape(-1, 2)[::-1]])
    filling: dict[str, Any] = {"constant_values": float(filled or 0.0)} if MODES[mode] == "constant" else {}
    return np.asarray(np.pad(x, rows, MODES[mode], **filling))  # type: ignore[call-overload]


def _space_to_batch(arguments: Arguments, attributes: Attributes) -> Array:
    """What a graph does around a dilated convolution: every so many-th row and column becomes an example of its own."""
    x, blocks, paddings = (np.asarray(each) for each in arguments[:3])
    count = len(blocks)
    padded = np.pad(x, [(0, 0), *paddings.astype(int), *[(0, 0)] * (x.ndim - count - 1)])
    parts = [
        padded[(slice(None), *(slice(at, None, int(step)) for at, step in zip(place, blocks, strict=True)))]
        for place in np.ndindex(*(int(step) for step in blocks))
    ]
    return np.concatenate(parts)


def _repeated(axes: slice) -> Callable[[Arguments, Attributes], Array]:
    """Every pixel as often as the output is larger, where that is a whole number."""

    def repeated(arguments: Arguments, attributes: Attributes) -> Array:
        made = np.asarray(arguments[0])
        spatial = range(made.ndim)[axes]
        if attributes.get("align_corners") or attributes.get("half_pixel_centers"):
            raise ValueError
        given = arguments[1] if len(arguments) > 1 and arguments[1] is not None else attributes.get("1")
        if given is not None and np.size(given):
            factors = [int(size) / made.shape[a] for size, a in zip(np.atleast_1d(given), spatial, strict=True)]
        else:
            factors = [float(each) for each in attributes["2"]]
        if any(each != int(each) for each in factors):
            raise ValueError
        for axis, factor in zip(spatial, factors, strict=True):
            made = made.repeat(int(factor), axis)
        return made

    return repeated


def _bilinear(arguments: Arguments, attributes: Attributes) -> Array:
    x = np.asarray(arguments[0], np.float64)
    if "align_corners" in attributes:  # a graph's op: channels last
        size = [int(each) for each in np.asarray(arguments[1])]
        centred = bool(attributes.get("half_pixel_centers"))
        return bilinear(x, size, bool(attributes["align_corners"]), centred)
    given = attributes.get("1")
    size = _each(given, 2) if given else [int(a * b) for a, b in zip(x.shape[2:], attributes["3"], strict=True)]
    return _first(bilinear(_last(x), size, bool(attributes["2"]), True))


WINDOWS: dict[str, Callable[[Arguments, Attributes], Array]] = {
    **{f"conv{count}d{bias}": _convolution for count in (1, 2, 3) for bias in BIASES},
    **{f"conv_transpose{count}d{bias}": _transposed_convolution for count in (1, 2, 3) for bias in BIASES},
    **dict.fromkeys(("maxpool", "maxpool3d"), _graph_pooling(mean=False)),
    **dict.fromkeys(("avgpool", "avgpool3d"), _graph_pooling(mean=True)),
    **dict.fromkeys(("max_pool1d", "max_pool2d", "max_pool3d"), _pooling(mean=False)),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "avg_pool3d"), _pooling(mean=True)),
    **dict.fromkeys(("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"), _pooled_to_one(mean=True)),
    **dict.fromkeys(("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d"), _pooled_to_one(mean=False)),
    **dict.fromkeys(("pad", "padv2", "mirrorpad"), _padded),
    **dict.fromkeys(("upsample_nearest1d", "upsample_nearest2d"), _repeated(slice(2, None))),
    **dict.fromkeys(("upsample_bilinear2d", "resizebilinear"), _bilinear),
    "resizenearestneighbor": _repeated(slice(1, -1)),
    "spacetobatchnd": _space_to_batch,
    "depthwiseconv2dnative": _graph_depthwise,
    "conv2dbackpropinput": _graph_transposed,
}
