"""How ops that change shapes are written: reshaping, joining, cutting, padding, and taking by index."""

import numpy as np

from parity.port.source.code import ATOM, Code, call, method
from parity.port.source.writer import Writer, scalar, writes
from parity.port.tower.fold import strided_index
from parity.port.tower.ops import CONST, Op


@writes("Reshape", "ExpandDims", "Squeeze")
def _reshape(writer: Writer, op: Op) -> Code:
    taken, before, after = op.inputs[0], op.inputs[0].shape, op.output().shape
    code = writer.code(taken)
    if len(after) == 2 and len(before) > 2 and after[0] == before[0]:
        return method(code, "flatten", "1")
    if len(after) == 1 and len(before) > 1:
        return method(code, "flatten")
    added = _axis_added(before, after)
    if added is not None:
        return method(code, "unsqueeze", str(added))
    added = _axis_added(after, before)
    if added is not None:
        return method(code, "squeeze", str(added))
    for cut in range(len(before), 1, -1):  # the first axes joined
        if after == (int(np.prod(before[:cut])), *before[cut:]):
            return method(code, "flatten", "0", str(cut - 1))
    return method(code, "reshape", *_lengths(op))


def _axis_added(before: tuple[int, ...], after: tuple[int, ...]) -> int | None:
    if len(after) != len(before) + 1:
        return None
    ones = [axis for axis, length in enumerate(after) if length == 1]
    return next((axis for axis in ones if (*after[:axis], *after[axis + 1 :]) == before), None)


def _lengths(op: Op) -> list[str]:
    """The lengths of a reshape, with -1 for that of the examples."""
    after = op.output().shape
    rest = int(np.prod(after[1:]))
    if len(after) > 1 and rest > 0:
        return ["-1", *map(str, after[1:])]
    return [*map(str, after)]


@writes("Transpose")
def _transpose(writer: Writer, op: Op) -> Code | None:
    if op.inputs[1].kind != CONST:
        return None
    order = [int(each) for each in op.inputs[1].value]
    if order == [1, 0]:
        return Code(f"{writer.code(op.inputs[0]).within(ATOM)}.T")
    rank = len(order)
    if rank > 3 and op.inputs[0] in writer.channels_first and order == [0, rank - 1, *range(1, rank - 1)]:
        return writer.code(op.inputs[0], True)
    moved = [axis for axis in range(rank) if order[axis] != axis]
    if len(moved) == 2:
        return method(writer.code(op.inputs[0]), "transpose", *map(str, moved))
    return method(writer.code(op.inputs[0]), "permute", *map(str, order))


@writes("ConcatV2")
def _concatenated(writer: Writer, op: Op) -> Code | None:
    *parts, axis = op.inputs
    if axis.kind != CONST:
        return None
    rank = len(op.output().shape)
    place = int(axis.value) % rank
    first = rank > 2 and any(each in writer.channels_first for each in parts)
    if first:
        writer.channels_first.add(op.output())
        place = {0: 0, rank - 1: 1}.get(place, place + 1)
    listed = ", ".join(writer.code(each, first).text for each in parts)
    return Code(f"torch.cat([{listed}], {place})")


@writes("Pack")
def _stacked(writer: Writer, op: Op) -> Code:
    listed = ", ".join(writer.code(each).text for each in op.inputs)
    return Code(f"torch.stack([{listed}], {int(op.attributes.get('axis', 0))})")


@writes("Unpack")
def _unstacked(writer: Writer, op: Op) -> Code:
    return method(writer.code(op.inputs[0]), "unbind", str(int(op.attributes.get("axis", 0))))


@writes("Split")
def _split(writer: Writer, op: Op) -> Code | None:
    axis, taken = op.inputs
    if axis.kind != CONST:
        return None
    return method(
        writer.code(taken), "chunk", str(int(op.attributes["num_split"])), str(int(axis.value) % len(taken.shape))
    )


@writes("SplitV")
def _split_unevenly(writer: Writer, op: Op) -> Code | None:
    taken, sizes, axis = op.inputs
    if sizes.kind != CONST or axis.kind != CONST:
        return None
    return method(
        writer.code(taken),
        "split",
        str([int(each) for each in sizes.value]),
        str(int(axis.value) % len(taken.shape)),
    )


@writes("StridedSlice")
def _strided_slice(writer: Writer, op: Op) -> Code | None:
    taken, *bounds = op.inputs
    if any(each.kind != CONST for each in bounds):
        return None
    index = strided_index(op, [each.value for each in bounds], len(taken.shape))
    if any(isinstance(each, slice) and each.step is not None and each.step < 0 for each in index):
        return None
    return Code(f"{writer.code(taken).within(ATOM)}[{', '.join(_part(each) for each in _trimmed(index))}]")


def _trimmed(index: tuple[object, ...]) -> list[object]:
    found = list(index)
    while len(found) > 1 and found[-1] == slice(None):
        found.pop()
    return found


def _part(each: object) -> str:
    if isinstance(each, slice):
        bounds = ["" if bound is None else str(bound) for bound in (each.start, each.stop)]
        if each.start == 0:
            bounds[0] = ""
        return ":".join(bounds if each.step is None else [*bounds, str(each.step)])
    return "..." if each is ... else str(each)


@writes("Slice")
def _slice(writer: Writer, op: Op) -> Code | None:
    taken, begin, size = op.inputs
    if begin.kind != CONST or size.kind != CONST:
        return None
    index = []
    for start, length, whole in zip(begin.value.tolist(), size.value.tolist(), taken.shape, strict=True):
        end = whole if length < 0 else start + length
        index.append(slice(start or None, None if end == whole else end))
    return Code(f"{writer.code(taken).within(ATOM)}[{', '.join(_part(each) for each in _trimmed(tuple(index)))}]")


@writes("Pad", "PadV2", "MirrorPad")
def _padded(writer: Writer, op: Op) -> Code | None:
    if op.inputs[1].kind != CONST:
        return None
    taken = op.inputs[0]
    widths = [tuple(map(int, each)) for each in op.inputs[1].value]
    first = taken in writer.channels_first
    if first:
        widths = [widths[0], widths[-1], *widths[1:-1]]
        writer.channels_first.add(op.output())
    while widths and widths[0] == (0, 0):
        widths.pop(0)
    flat = tuple(bound for each in reversed(widths) for bound in each)
    mode = {"REFLECT": '"reflect"', "SYMMETRIC": None}.get(op.attributes.get("mode", ""))
    if op.kind == "MirrorPad" and mode is None:
        return None
    value = scalar(op.inputs[2]) if op.kind == "PadV2" else None
    return call("F.pad", writer.code(taken, first), str(flat), mode=mode, value=value.text if value else None)


@writes("Tile")
def _tiled(writer: Writer, op: Op) -> Code | None:
    if op.inputs[1].kind != CONST:
        return None
    return method(writer.code(op.inputs[0]), "repeat", *(str(int(each)) for each in op.inputs[1].value))


@writes("Gather", "GatherV2")
def _gathered(writer: Writer, op: Op) -> Code | None:
    taken, places = op.inputs[:2]
    axis = int(op.inputs[2].value) % len(taken.shape) if len(op.inputs) > 2 and op.inputs[2].kind == CONST else 0
    if int(op.attributes.get("batch_dims", 0)):
        return None
    index = writer.code(places)
    index = index if places.kind == CONST else method(index, "long")
    return Code(f"{writer.code(taken).within(ATOM)}[{', '.join([':'] * axis + [index.text])}]")


@writes("OneHot")
def _one_hot(writer: Writer, op: Op) -> Code | None:
    places, depth, on, off = op.inputs
    if depth.kind != CONST or scalar(on) is None or scalar(off) is None or int(op.attributes.get("axis", -1)) != -1:
        return None
    if float(on.value) != 1 or float(off.value) != 0:
        return None
    coded = call("F.one_hot", method(writer.code(places), "long"), str(int(depth.value)))
    return method(coded, "to", f"{writer.parameters.example(writer.owner)}.dtype") if op.dtypes[0] != "int32" else coded
