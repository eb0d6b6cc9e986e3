"""Infers the shapes that a script leaves open, from those of what was recorded."""

from collections.abc import Callable, Sequence

import numpy as np

from parity.port.tower.ops import CONST, LOOP, LOOP_STATE, Op, Tensor
from parity.trace.arrays import Array

Shape = tuple[int, ...]


def is_known(shape: Sequence[int | None] | None) -> bool:
    """Whether every length of a shape is known."""
    return shape is not None and all(each is not None and each >= 0 for each in shape)


def inferred(op: Op) -> Shape | None:
    """Returns the shape of an op's first output, of the shapes of what it takes; None where there is no rule for it."""
    # Whatever has no rule works element by element, as most ops do; the recorded shapes are asked first.
    rule = SHAPE_RULES.get(op.kind, _broadcast if op.inputs else None)
    if rule is None:
        return None
    try:
        return rule(op)
    except (ValueError, IndexError, TypeError, KeyError):
        return None


def _broadcast(op: Op) -> Shape:
    return tuple(np.broadcast_shapes(*(each.shape for each in op.inputs)))


def _same(op: Op) -> Shape:
    return op.inputs[0].shape


def _reshaped(op: Op) -> Shape | None:
    if op.inputs[1].kind != CONST:
        return None
    wanted = [int(each) for each in np.ravel(op.inputs[1].value)]
    size = int(np.prod(op.inputs[0].shape, dtype=int))
    rest = int(np.prod([each for each in wanted if each >= 0], dtype=int))
    # One length may be -1: what is left of the elements.
    return tuple(size // max(rest, 1) if each < 0 else each for each in wanted)


def _reduced(op: Op) -> Shape | None:
    if op.inputs[1].kind != CONST:
        return None
    taken = op.inputs[0].shape
    axes = {int(each) % len(taken) for each in np.ravel(op.inputs[1].value)} if taken else set()
    if op.attributes.get("keep_dims"):
        return tuple(1 if axis in axes else each for axis, each in enumerate(taken))
    return tuple(each for axis, each in enumerate(taken) if axis not in axes)


def _product(op: Op) -> Shape:
    first, second = (each.shape for each in op.inputs)
    names = ("transpose_a", "transpose_b") if op.kind == "MatMul" else ("adj_x", "adj_y")
    rows = first[-1 if op.attributes.get(names[0]) else -2]
    columns = second[-2 if op.attributes.get(names[1]) else -1]
    return (*np.broadcast_shapes(first[:-2], second[:-2]), rows, columns)


def _window(op: Op, kernel: Sequence[int]) -> Shape:
    taken = op.inputs[0].shape
    first = str(op.attributes.get("data_format", "NHWC")).startswith("NC")
    places = range(2, len(taken)) if first else range(1, len(taken) - 1)
    strides = op.attributes.get("strides") or [1] * len(taken)
    dilations = op.attributes.get("dilations") or [1] * len(taken)
    found = list(taken)
    for place, length in zip(places, kernel, strict=True):
        size, stride = taken[place], strides[place]
        if op.attributes.get("padding") == "EXPLICIT":  # before and behind each axis, in their order
            size += sum(op.attributes["explicit_paddings"][2 * place : 2 * place + 2])
        # SAME gives ceil(size / stride) whatever the window.
        if op.attributes.get("padding") in ("VALID", "EXPLICIT"):
            size -= (length - 1) * dilations[place]
        found[place] = -(-size // stride)
    return tuple(found)


def _convolved(op: Op) -> Shape:
    kernel = op.inputs[1].shape
    found = list(_window(op, kernel[:-2]))
    # A depthwise kernel is [height, width, channels, multiplier].
    channels = kernel[-1] * (kernel[-2] if op.kind == "DepthwiseConv2dNative" else 1)
    found[1 if str(op.attributes.get("data_format", "NHWC")).startswith("NC") else -1] = channels
    return tuple(found)


def _pooled(op: Op) -> Shape:
    first = str(op.attributes.get("data_format", "NHWC")).startswith("NC")
    lengths = op.attributes["ksize"]
    return _window(op, lengths[2:] if first else lengths[1:-1])


def _transposed(op: Op) -> Shape:
    return tuple(op.inputs[0].shape[int(each)] for each in op.inputs[1].value)


def _joined(op: Op) -> Shape:
    *parts, axis = op.inputs
    found = list(parts[0].shape)
    found[int(axis.value)] = sum(each.shape[int(axis.value)] for each in parts)
    return tuple(found)


def _stacked(op: Op) -> Shape:
    axis = int(op.attributes.get("axis", 0))
    taken = op.inputs[0].shape
    place = axis % (len(taken) + 1)
    return (*taken[:place], len(op.inputs), *taken[place:])


def _gathered(op: Op) -> Shape:
    taken, places = op.inputs[0].shape, op.inputs[1].shape
    axis = int(op.inputs[2].value) % len(taken) if len(op.inputs) > 2 else 0
    batch = int(op.attributes.get("batch_dims", 0)) % max(
        len(places), 1
    )  # axes that both have, and that are there once
    return (*taken[:axis], *places[batch:], *taken[axis + 1 :])


def _widened(op: Op) -> Shape:
    taken, axis = op.inputs[0].shape, int(op.inputs[1].value)
    place = axis % (len(taken) + 1)
    return (*taken[:place], 1, *taken[place:])


def _squeezed(op: Op) -> Shape:
    taken = op.inputs[0].shape
    axes = {each % len(taken) for each in op.attributes.get("squeeze_dims") or []}
    # No axes named: every one of length 1 goes, that of a batch of one example too.
    return tuple(each for axis, each in enumerate(taken) if not (axis in axes or (not axes and each == 1)))


def _coded(op: Op) -> Shape:
    return (*op.inputs[0].shape, int(op.inputs[1].value))


def _padded(op: Op) -> Shape:
    return tuple(
        length + int(sum(widths)) for length, widths in zip(op.inputs[0].shape, op.inputs[1].value, strict=True)
    )


def _sliced(op: Op) -> Shape:
    from parity.port.tower.fold import strided_index

    # One number in memory, whatever the shape: numpy slices it as TensorFlow does.
    example = np.broadcast_to(np.zeros(()), op.inputs[0].shape)
    bounds = [_bounds(each, int(op.attributes.get("shrink_axis_mask", 0))) for each in op.inputs[1:]]
    return tuple(example[strided_index(op, bounds, example.ndim)].shape)


def _bounds(tensor: Tensor, shrinks: int) -> Array:
    """Where a slice begins or ends; 0 for what is not known and takes one element, wherever that is."""
    if tensor.kind != "Pack":
        return tensor.value
    known = [
        np.zeros((), int) if shrinks & 1 << place and each.kind != CONST else each.value
        for place, each in enumerate(tensor.op.inputs)
    ]
    return np.array(known)


def _cut(op: Op) -> Shape:
    taken, begin, size = op.inputs
    found = zip(taken.shape, begin.value.tolist(), size.value.tolist(), strict=True)
    return tuple(whole - start if length < 0 else length for whole, start, length in found)


def _by_example(op: Op) -> Shape:
    return op.inputs[0].shape[:1]


def _none(op: Op) -> Shape:
    return ()


def _chosen(op: Op) -> Shape:
    return op.inputs[1].shape  # the condition of the first Select chooses rows


def _given_shape(op: Op) -> Shape:
    return tuple(int(each) for each in op.inputs[0].value)


def _shared(op: Op) -> Shape:
    axis, taken = op.inputs
    place = int(axis.value) % len(taken.shape)
    found = list(taken.shape)
    found[place] //= int(op.attributes["num_split"])
    return tuple(found)


def _unpacked(op: Op) -> Shape:
    taken = op.inputs[0].shape
    place = int(op.attributes.get("axis", 0)) % len(taken)
    return (*taken[:place], *taken[place + 1 :])


def _element_read(op: Op) -> Shape | None:
    return element_shape(op.inputs[2])


def _elements_gathered(op: Op) -> Shape | None:
    element = element_shape(op.inputs[2])
    return None if element is None else (op.inputs[1].value.size, *element)


def element_shape(array: Tensor) -> Shape | None:
    """Returns the shape of what a TensorArray holds, of the flow behind what wrote into it."""
    while array.kind == LOOP:  # what an iteration leaves: its states come first, then what they are next
        array = array.op.inputs[len(array.op.shapes) + array.number]
    if array.kind == "TensorArrayScatterV3":
        return array.op.inputs[2].shape[1:]
    return array.op.inputs[2].shape if array.kind == "TensorArrayWriteV3" else None


def _resized(op: Op) -> Shape:
    taken = op.inputs[0].shape
    return (taken[0], *(int(each) for each in np.ravel(op.inputs[1].value)), taken[-1])


def _place_of_extreme(op: Op) -> Shape:
    taken = op.inputs[0].shape
    axis = int(op.inputs[1].value) % len(taken)
    return (*taken[:axis], *taken[axis + 1 :])


def _tiled(op: Op) -> Shape:
    return tuple(length * int(each) for length, each in zip(op.inputs[0].shape, op.inputs[1].value, strict=True))


def _wanted(op: Op) -> Shape:
    return tuple(int(each) for each in np.ravel(op.inputs[1].value))


def _places(op: Op) -> Shape:
    """How many there are is another number in every step: as if it were all, which no statement is written with."""
    taken = op.inputs[0].shape
    return (int(np.prod(taken, dtype=int)), len(taken))


def _largest(op: Op) -> Shape:
    return (*op.inputs[0].shape[:-1], int(op.inputs[1].value))


def _gathered_at(op: Op) -> Shape:
    taken, places = op.inputs[0].shape, op.inputs[1].shape
    return (*places[:-1], *taken[places[-1] :])


def _blocks(op: Op) -> Shape:
    block = int(op.attributes["block_size"])
    batch, *space, channels = op.inputs[0].shape
    if op.attributes.get("data_format", "NHWC") != "NHWC":
        batch, channels, *space = op.inputs[0].shape
    deeper = op.kind == "SpaceToDepth"
    found = [each // block if deeper else each * block for each in space]
    depth = channels * block * block if deeper else channels // (block * block)
    return (batch, *found, depth) if op.attributes.get("data_format", "NHWC") == "NHWC" else (batch, depth, *found)


SHAPE_RULES: dict[str, Callable[[Op], Shape | None]] = {
    "Reshape": _reshaped,
    "Select": _chosen,
    "Sum": _reduced,
    "Mean": _reduced,
    "Max": _reduced,
    "Min": _reduced,
    "Prod": _reduced,
    "All": _reduced,
    "Any": _reduced,
    "MatMul": _product,
    "BatchMatMul": _product,
    "BatchMatMulV2": _product,
    "Conv2D": _convolved,
    "DepthwiseConv2dNative": _convolved,
    "Conv3D": _convolved,
    "Conv2DBackpropInput": _given_shape,
    "MaxPool3D": _pooled,
    "AvgPool3D": _pooled,
    "ResizeBilinear": _resized,
    "ResizeNearestNeighbor": _resized,
    "DepthToSpace": _blocks,
    "SpaceToDepth": _blocks,
    "BatchMatMulV3": _product,
    "ArgMax": _place_of_extreme,
    "ArgMin": _place_of_extreme,
    "Tile": _tiled,
    "BroadcastTo": _wanted,
    "TopKV2": _largest,
    "Where": _places,
    "GatherNd": _gathered_at,
    "ReverseV2": _same,
    "Cumsum": _same,
    "Cumprod": _same,
    "MaxPool": _pooled,
    "AvgPool": _pooled,
    "Transpose": _transposed,
    "ConcatV2": _joined,
    "Pack": _stacked,
    "Unpack": _unpacked,
    "Split": _shared,
    "Gather": _gathered,
    "GatherV2": _gathered,
    "ResourceGather": _gathered,
    "ExpandDims": _widened,
    "Squeeze": _squeezed,
    "OneHot": _coded,
    "Pad": _padded,
    "PadV2": _padded,
    "MirrorPad": _padded,
    "StridedSlice": _sliced,
    "Slice": _cut,
    "SparseSoftmaxCrossEntropyWithLogits": _by_example,
    "SoftmaxCrossEntropyWithLogits": _by_example,
    "L2Loss": _none,
    "RandomUniform": _given_shape,
    "RandomStandardNormal": _given_shape,
    "TruncatedNormal": _given_shape,
    "Fill": _given_shape,
    "Softmax": _same,
    "LogSoftmax": _same,
    "FusedBatchNorm": _same,
    "FusedBatchNormV2": _same,
    "FusedBatchNormV3": _same,
    "LRN": _same,
    "BiasAdd": _same,
    "Cast": _same,
    LOOP_STATE: _same,
    "TensorArrayReadV3": _element_read,
    "TensorArrayGatherV3": _elements_gathered,
}
