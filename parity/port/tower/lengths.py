"""Finds the numbers of a tower that are lengths of what was recorded, which are others where other batches are fed."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from parity.port.tower.ops import CONST, LOOP, OPEN, Op, Tensor
from parity.trace.arrays import Array

SHAPE_KINDS = ("Shape", "ShapeN", "Size")
# What moves elements and computes nothing, with how many of its inputs, from the first, they come from.
MOVING_KINDS: Mapping[str, slice] = {
    **dict.fromkeys(["StridedSlice", "Slice", "GatherV2", "Squeeze", "Reshape", "ExpandDims"], slice(1)),
    "Pack": slice(None),
    "ConcatV2": slice(-1),
}
# Where another length is no other number but an error.
RAISING_KINDS = ("RandomUniform", "RandomStandardNormal", "TruncatedNormal", "BroadcastTo", "Conv2DBackpropInput")


def open_in(op: Op, value: Array, move: Callable[[Op, list[Array]], Array] | None) -> Array | None:
    """Returns where a folded op's number depends on a length that the script leaves open; None where none does.

    Args:
      op: with folded inputs.
      value: what it was folded to.
      move: computes it of its inputs, None where it is not known how.
    """
    if op.kind in SHAPE_KINDS:
        lengths = op.attributes.get(OPEN)
        if lengths is None or not lengths.any():
            return None
        return np.broadcast_to(lengths, value.shape) if op.kind != "Size" else np.array(True)
    taken = op.inputs[1:] if op.kind == "Fill" else op.inputs  # a fill's shape is no number of it
    if not any(OPEN in each.op.attributes for each in taken):
        return None
    if op.kind in MOVING_KINDS and move is not None:
        moved = range(len(taken))[MOVING_KINDS[op.kind]]
        found = move(op, [_mask(each) if place in moved else each.value for place, each in enumerate(taken)])
        return np.asarray(found, bool) if np.any(found) else None
    return np.full(value.shape, True)


def _mask(tensor: Tensor) -> Array:
    mask = tensor.op.attributes.get(OPEN)
    return np.zeros(tensor.value.shape, bool) if mask is None else np.asarray(mask)


def with_lengths(ops: Iterable[Op], stops_of: Callable[[Op], Sequence[Tensor]]) -> Iterator[Op]:
    """Yields the ops that are written with such a number.

    Args:
      ops: of a tower as it is written, those in loops too.
      stops_of: the numbers that a loop counts to.
    """
    for op in ops:
        taken = [*op.inputs, *(stops_of(op) if op.kind == LOOP else ())]
        if op.kind not in RAISING_KINDS and any(_is_written(op, each) for each in taken):
            yield op


def _is_written(op: Op, tensor: Tensor) -> bool:
    mask = tensor.op.attributes.get(OPEN) if tensor.kind == CONST else None
    if mask is None:
        return False
    # A reshape leaves its first length open itself.
    return bool(mask[1:].any()) if op.kind == "Reshape" and mask.ndim else True
