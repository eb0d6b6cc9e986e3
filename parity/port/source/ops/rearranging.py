"""How ops that move elements are written: blocks of space and depth, indices, segments, bands and diagonals."""

from collections.abc import Sequence

import numpy as np

from parity.port.source.code import ATOM, Code, call, method
from parity.port.source.writer import Writer, writes
from parity.port.tower.ops import CONST, Op, Tensor


def _integers(tensor: Tensor) -> list[int] | None:
    return [int(each) for each in np.ravel(tensor.value)] if tensor.kind == CONST else None


def _moved(code: Code, before: Sequence[int], order: Sequence[int], after: Sequence[int]) -> Code:
    """Axes cut into blocks, put into another order, and joined; -1 stands for the number of examples."""
    cut = method(code, "reshape", "-1", *map(str, before[1:]))
    return method(method(cut, "permute", *map(str, order)), "reshape", "-1", *map(str, after[1:]))


@writes("DepthToSpace")
def _depth_to_space(writer: Writer, op: Op) -> Code:
    # The channel of TensorFlow's is (row, column, channel), that of pixel_shuffle (channel, row, column).
    block = int(op.attributes["block_size"])
    taken, after = op.inputs[0].shape, op.output().shape
    if op.attributes.get("data_format") == "NCHW":
        before = (taken[0], block, block, after[1], taken[2], taken[3])
        return _moved(writer.code(op.inputs[0]), before, (0, 3, 4, 1, 5, 2), after)
    before = (taken[0], taken[1], taken[2], block, block, after[3])
    return _moved(writer.code(op.inputs[0]), before, (0, 1, 3, 2, 4, 5), after)


@writes("Range")
def _range(writer: Writer, op: Op) -> Code | None:
    if any(each.kind != CONST for each in op.inputs):
        return None
    first, stop, step = (each.value.item() for each in op.inputs)
    # Of whole numbers exact in every precision; of others arange would compute in float32.
    whole_numbers = all(float(each).is_integer() for each in (first, stop, step))
    bounds = [first, stop, step] if step != 1 else [first, stop] if first else [stop]
    written = [str(int(each)) if whole_numbers else repr(each) for each in bounds]
    numbers = call("torch.arange", *written, dtype=None if whole_numbers else "torch.float64")
    return method(numbers, "to", writer.parameters.example(writer.owner))


@writes("SpaceToDepth")
def _space_to_depth(writer: Writer, op: Op) -> Code:
    block = int(op.attributes["block_size"])
    taken, after = op.inputs[0].shape, op.output().shape
    if op.attributes.get("data_format") == "NCHW":
        before = (taken[0], taken[1], after[2], block, after[3], block)
        return _moved(writer.code(op.inputs[0]), before, (0, 3, 5, 1, 2, 4), after)
    before = (taken[0], after[1], block, after[2], block, taken[3])
    return _moved(writer.code(op.inputs[0]), before, (0, 1, 3, 2, 4, 5), after)


@writes("SpaceToBatchND")
def _space_to_batch(writer: Writer, op: Op) -> Code | None:
    block, pads = (_integers(each) for each in op.inputs[1:])
    if block is None or pads is None:
        return None
    taken, count, rest = op.inputs[0].shape, len(block), op.inputs[0].shape[len(block) + 1 :]
    # TensorFlow pads axis by axis from the first, F.pad from the last.
    widths = [pads[2 * axis : 2 * axis + 2] for axis in range(count)]
    flat = [0] * 2 * len(rest) + [width for pair in reversed(widths) for width in pair]
    code = writer.code(op.inputs[0])
    code = call("F.pad", code, str(tuple(flat))) if any(flat) else code
    sizes = [(length + sum(pair)) // each for length, pair, each in zip(taken[1:], widths, block, strict=False)]
    before = [taken[0], *(each for pair in zip(sizes, block, strict=True) for each in pair), *rest]
    within, across = range(2, 2 * count + 1, 2), range(1, 2 * count + 1, 2)
    # The place inside a block goes in front of the examples, row before column: batch' = (row, column, example).
    order = [*within, 0, *across, *range(2 * count + 1, 2 * count + 1 + len(rest))]
    return _moved(code, before, order, op.output().shape)


@writes("BatchToSpaceND")
def _batch_to_space(writer: Writer, op: Op) -> Code | None:
    block, crops = (_integers(each) for each in op.inputs[1:])
    if block is None or crops is None:
        return None
    taken, count = op.inputs[0].shape, len(block)
    rest, sizes = taken[count + 1 :], taken[1 : count + 1]
    cut = method(writer.code(op.inputs[0]), "reshape", *map(str, block), "-1", *map(str, (*sizes, *rest)))
    order = [count, *(axis for place in range(count) for axis in (count + 1 + place, place))]
    order += range(2 * count + 1, 2 * count + 1 + len(rest))
    whole = [size * each for size, each in zip(sizes, block, strict=True)]
    code = method(method(cut, "permute", *map(str, order)), "reshape", "-1", *map(str, (*whole, *rest)))
    if not any(crops):
        return code
    ends = [size - crops[2 * axis + 1] for axis, size in enumerate(whole)]
    kept = ", ".join(f"{crops[2 * axis]}:{end}" for axis, end in enumerate(ends))
    return Code(f"{code.text}[:, {kept}]")


@writes("ReverseV2")
def _reversed(writer: Writer, op: Op) -> Code | None:
    axes = _integers(op.inputs[1])
    if axes is None:
        return None
    rank = len(op.inputs[0].shape)
    return method(writer.code(op.inputs[0]), "flip", *(str(axis % rank) for axis in axes))


@writes("Roll")
def _rolled(writer: Writer, op: Op) -> Code | None:
    shifts, axes = (_integers(each) for each in op.inputs[1:])
    if shifts is None or axes is None:
        return None
    return method(writer.code(op.inputs[0]), "roll", str(tuple(shifts)), str(tuple(axes)))


@writes("BroadcastTo")
def _broadcast(writer: Writer, op: Op) -> Code:
    before, after = op.inputs[0].shape, op.output().shape
    kept = (None,) * (len(after) - len(before)) + before
    # -1 keeps a length, so that a batch may have another one.
    lengths = [-1 if own == wanted else wanted for own, wanted in zip(kept, after, strict=True)]
    return method(writer.code(op.inputs[0]), "expand", *map(str, lengths))


@writes("TopKV2")
def _largest(writer: Writer, op: Op) -> Code | None:
    count = _integers(op.inputs[1])
    return None if count is None else method(writer.code(op.inputs[0]), "topk", str(count[0]))


@writes("GatherNd")
def _gathered_at(writer: Writer, op: Op) -> Code:
    places = method(method(writer.code(op.inputs[1]), "long"), "unbind", "-1")
    return Code(f"{writer.code(op.inputs[0]).within(ATOM)}[{places.text}]")


@writes("Where")
def _places(writer: Writer, op: Op) -> Code:
    return method(writer.code(op.inputs[0]), "nonzero")


@writes("ScatterNd")
def _scattered(writer: Writer, op: Op) -> Code:
    values = writer.named(op.inputs[1])
    empty = method(values, "new_zeros", str(op.output().shape))
    index = method(method(writer.code(op.inputs[0]), "long"), "unbind", "-1")
    # Places that come twice are added up, as tf.scatter_nd does.
    return method(empty, "index_put", index, values, accumulate=True)


@writes("SegmentSum", "UnsortedSegmentSum")
def _summed_by_segment(writer: Writer, op: Op) -> Code | None:
    if len(op.inputs[1].shape) != 1:
        return None
    values = writer.named(op.inputs[0])
    empty = method(values, "new_zeros", str(op.output().shape))
    return method(empty, "index_add", "0", method(writer.code(op.inputs[1]), "long"), values)


@writes("MatrixBandPart")
def _band(writer: Writer, op: Op) -> Code | None:
    lower, upper = (_integers(each) for each in op.inputs[1:])
    if lower is None or upper is None:
        return None
    code = writer.code(op.inputs[0])
    # A negative number keeps the whole triangle.
    if lower[0] >= 0:
        code = method(code, "triu", str(-lower[0]))
    return method(code, "tril", str(upper[0])) if upper[0] >= 0 else code


def _main_diagonal(op: Op) -> bool:
    """Whether of the versions with a choice of diagonals the main one alone is chosen."""
    return len(op.inputs) == 1 or _integers(op.inputs[1]) == [0]


@writes("MatrixDiag", "MatrixDiagV2", "MatrixDiagV3", "Diag")
def _diagonal_matrix(writer: Writer, op: Op) -> Code | None:
    square = op.output().shape == (*op.inputs[0].shape, *op.inputs[0].shape[-1:])
    if not _main_diagonal(op) or not square:
        return None
    return method(writer.code(op.inputs[0]), "diag_embed")


@writes("MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3")
def _diagonal(writer: Writer, op: Op) -> Code | None:
    return method(writer.code(op.inputs[0]), "diagonal", dim1=-2, dim2=-1) if _main_diagonal(op) else None


@writes("Cumsum", "Cumprod")
def _running(writer: Writer, op: Op) -> Code | None:
    axes = _integers(op.inputs[1])
    if axes is None:
        return None
    rank, name = len(op.inputs[0].shape), op.kind.lower()
    axis = axes[0] % rank
    code = writer.code(op.inputs[0])
    if op.attributes.get("reverse"):
        code = method(code, "flip", str(axis))
    if op.attributes.get("exclusive"):  # the last element leaves, the neutral one comes in front
        widths = (0, 0) * (rank - 1 - axis) + (1, -1)
        code = call("F.pad", code, str(widths), value=None if name == "cumsum" else 1)
    code = method(code, name, str(axis))
    return method(code, "flip", str(axis)) if op.attributes.get("reverse") else code
