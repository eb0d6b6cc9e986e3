"""Finds what a tower is fed with: placeholders, and what queues and iterators hand out."""

import collections
from typing import AbstractSet, Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import tensor_util

from parity.trace.arrays import Array
from tf_towers.graph.op_types import (
    ABOUT_VARIABLES,
    ASSERTING,
    BY_EXAMPLE,
    CHECKING,
    FUNCTION_CALLS,
    OVER_AXES,
    PLACEHOLDERS,
    PRINTING,
    RANDOM,
    READS,
    SHAPE_ONLY,
    WITH_A_CONSTANT,
    WITHIN_A_RUN,
    WRITING,
)
from tf_towers.tf_types import DType, Operation, Tensor

Piece = Tuple[Tensor, Tensor, Optional[Tuple[int, int]]]  # source, tensor and share of an `Input`


class Input(NamedTuple):
    """One input of one tower.

    Fields:
      name: for the trace, the same in every tower.
      source: the tensor that it comes from, e.g. a placeholder of the whole batch.
      tensor: the tower's own piece of it, or the source where the tower reads its share of that behind other ops.
      share: ``(place, count)`` there, of equal shares along the batch; else None.
    """

    name: str
    source: Tensor
    tensor: Tensor
    share: Optional[Tuple[int, int]]


def inputs_of(
    towers_ops: Sequence[AbstractSet[Operation]], fed: AbstractSet[str] = frozenset()
) -> Tuple[List[List[Input]], List[str]]:
    """Finds the inputs of every tower.

    Args:
      towers_ops: list over the towers of the set of ops that its loss needs.
      fed: names of tensors that the script feeds though they are no placeholders, such as an RNN's first state.

    Returns:
      ``(inputs, missed)``: a list over the towers of lists of `Input`, and the names of what cannot be recorded.
    """
    found: List[List[Piece]] = []
    missed: Set[str] = set()
    for ops in towers_ops:
        pieces: List[Piece] = []
        for source in sources_in(ops, fed):
            if source.dtype.base_dtype in (tf.string, tf.resource, tf.variant) or not source.graph.is_fetchable(source):
                missed.add(source.name)
            else:
                tensor = _piece(source, ops)
                pieces.append((source, tensor, _share(source, ops) if tensor is source else None))
        found.append(pieces)
    names = _names([source for source, _, _ in found[0]]) if found else []
    named = []
    for pieces in found:
        own = names if _alike(found[0], pieces) else _names([source for source, _, _ in pieces])
        named.append([Input(name, *piece) for name, piece in zip(own, _whole_where_unequal(pieces, found))])
    return named, sorted(missed)


def share_of(batch: Array, place: int, count: int) -> Array:
    """Returns one of equal shares of an array along its first axis; all of it where it does not divide."""
    # Rows place * size to (place + 1) * size: shares are contiguous, as Split makes them.
    size = len(batch) // count
    return batch[place * size : (place + 1) * size] if size * count == len(batch) else batch


def sources_in(ops: AbstractSet[Operation], fed: AbstractSet[str] = frozenset()) -> List[Tensor]:
    """Returns the tensors in which data enters `ops`, in the order in which they were made; `fed` as in `inputs_of`."""
    sources = []
    for op in sorted(ops, key=lambda op: op._id):
        if is_fed(op, fed):
            sources += [out for out in op.outputs if out.name in fed]
        elif is_source(op):
            sources += [out for out in op.outputs if any(reader in ops for reader in out.consumers())]
    return sources


def is_fed(op: Operation, fed: AbstractSet[str]) -> bool:
    """Tells whether the script feeds an output of `op`; `fed` is a set of names of tensors."""
    return bool(fed) and any(out.name in fed for out in op.outputs)


def is_source(op: Operation) -> bool:
    """Tells whether data enters the graph here: a placeholder, or an op with a state other than a variable's."""
    if op.type in PLACEHOLDERS:
        return True
    # Stateful all of them, and yet no data: random ops are recorded as draws.
    if (
        op.type in ABOUT_VARIABLES | READS | RANDOM | PRINTING | CHECKING | ASSERTING | FUNCTION_CALLS
        or op.type.startswith(WRITING + WITHIN_A_RUN)
    ):
        return False
    # Queues and iterators give handles first; data enters where these are read.
    handles = all(out.dtype.base_dtype in (tf.resource, tf.variant) or out.dtype._is_ref_dtype for out in op.outputs)
    return bool(op.op_def is not None and op.op_def.is_stateful and len(op.outputs) and not handles)


def _piece(tensor: Tensor, ops: AbstractSet[Operation]) -> Tensor:
    """Follows a batch through the ops that only cut it, to the piece that is this tower's."""
    while True:
        # Of 58 codebases read 26 cut one batch with tf.split and 6 slice a placeholder.
        readers = [op for op in tensor.consumers() if op in ops and op.type not in SHAPE_ONLY]
        if not readers or not all(_cuts(op, tensor) for op in readers):
            return tensor
        outputs = [out for op in readers for out in op.outputs if any(reader in ops for reader in out.consumers())]
        outputs = _distinct(outputs)
        outputs = outputs if len(outputs) == 1 else _put_together(outputs, ops)
        if len(outputs) != 1 or not tensor.graph.is_fetchable(outputs[0]):  # a branch's copy of its condition is not
            return tensor
        tensor = outputs[0]


def _distinct(outputs: Sequence[Tensor]) -> List[Tensor]:
    """Drops outputs of ops that cut the same piece once more."""
    known: Dict[Any, Tensor] = {}
    for out in outputs:
        values = [tensor_util.constant_value(each) for each in list(out.op.inputs)[1:]]
        numbers = None if any(value is None for value in values) else [np.asarray(value).tolist() for value in values]
        same = (out.op.type, out.value_index, str(out.shape), str(numbers)) if numbers is not None else out.name
        # Taken for the same where the op and all its other inputs are equal constants.
        known.setdefault(same, out)
    return list(known.values())


def _share(source: Tensor, ops: AbstractSet[Operation]) -> Optional[Tuple[int, int]]:
    """Returns ``(place, count)`` where a tower reads one of equal shares of a batch, cut behind ops by example; or None."""
    shares, along = set(), {source.name}
    for op in sorted(ops, key=lambda op: op._id):
        if op.type in SHAPE_ONLY or not any(each.name in along for each in op.inputs):
            continue
        # Split takes its axis before the tensor, SplitV behind the tensor and the sizes.
        if op.type == "Split" and op.inputs[1].name in along and tensor_util.constant_value(op.inputs[0]) == 0:
            read = [out for out in op.outputs if any(reader in ops for reader in out.consumers())]
            shares |= {(out.value_index, len(op.outputs)) for out in read}
        elif _by_example(op, along):
            along.update(out.name for out in op.outputs)
        else:
            return None
    return shares.pop() if len(shares) == 1 else None


def _by_example(op: Operation, along: Set[str]) -> bool:
    """Tells whether an op keeps examples apart; `along` are the names of tensors with one row for each."""
    first = op.inputs[0]
    # OneHot's new axis must not be the one of the examples.
    if op.type in BY_EXAMPLE:
        return first.name in along and (op.type != "OneHot" or op.get_attr("axis") in (-1, 1))
    if op.type in OVER_AXES:
        axes = tensor_util.constant_value(op.inputs[1])
        ranks = first.shape.ndims
        return first.name in along and bool(ranks) and axes is not None and 0 not in np.ravel(axes) % ranks
    if op.type not in WITH_A_CONSTANT:
        return False
    ranks = {each.shape.ndims for each in op.inputs if each.name in along}
    others = [each for each in op.inputs if each.name not in along]
    return (
        # A constant of lower rank is broadcast along the examples, and the same for each.
        ranks != {None}
        and len(ranks) == 1
        and all(tensor_util.constant_value(each) is not None and each.shape.ndims < min(ranks) for each in others)
    )


def _whole_where_unequal(
    pieces: Sequence[Piece],
    found: Sequence[Sequence[Piece]],
) -> List[Piece]:
    """Keeps shares only where every tower has its own of as many as there are towers: they make up the batch in order."""
    kept = []
    for place, (source, tensor, share) in enumerate(pieces):
        shares = [each[place][2] if place < len(each) else None for each in found]
        whole = shares == [(number, len(found)) for number in range(len(found))]
        kept.append((source, tensor, share if whole else None))
    return kept


def _put_together(pieces: Sequence[Tensor], ops: AbstractSet[Operation]) -> List[Tensor]:
    """Returns the output of the one op that puts pieces of a batch together again, or [] where there is none."""
    # Where examples are dealt out in turn, as cifar10_estimator does, each tower stacks every n-th of what was
    # unstacked.
    readers = {op for piece in pieces for op in piece.consumers() if op in ops and op.type not in SHAPE_ONLY}
    if len(readers) != 1:
        return []
    op = readers.pop()
    if op.type == "Pack":
        along, parts = op.get_attr("axis") == 0, list(op.inputs)
    elif op.type == "ConcatV2":
        along, parts = tensor_util.constant_value(op.inputs[-1]) == 0, list(op.inputs)[:-1]
    elif op.type == "Concat":
        # The op of TensorFlow 0.x has its axis in front.
        along, parts = tensor_util.constant_value(op.inputs[0]) == 0, list(op.inputs)[1:]
    else:
        return []
    return list(op.outputs) if along and {each.name for each in parts} <= {each.name for each in pieces} else []


def _cuts(op: Operation, tensor: Tensor) -> bool:
    if op.type == "Identity":
        return True
    if op.type in ("Gather", "GatherV2"):
        axis = tensor_util.constant_value(op.inputs[2]) if op.type == "GatherV2" else 0
        return op.inputs[0] is tensor and axis == 0 and tensor_util.constant_value(op.inputs[1]) is not None
    if op.type in ("Split", "SplitV"):
        axis = tensor_util.constant_value(op.inputs[0 if op.type == "Split" else 2])
        # Counted from the end the first axis is -rank; where the rank is not known no negative axis is taken for it.
        return axis is not None and int(axis) in (0, -(tensor.shape.ndims or 99))
    if op.type == "Unpack":
        return bool(op.get_attr("axis") == 0)
    if op.type not in ("Slice", "StridedSlice") or op.inputs[0] is not tensor or tensor.shape.ndims is None:
        return False
    whole, piece = tensor.shape.as_list(), op.outputs[0].shape
    # All axes but the first are whole; an index in place of a slice drops the first one.
    return piece.ndims is not None and piece.as_list()[max(0, piece.ndims - len(whole) + 1) :] == whole[1:]


def _names(sources: Sequence[Tensor]) -> List[str]:
    """Last parts of the ops' names, numbered where an op has several outputs; whole names where those collide."""

    def name(source: Tensor, whole: bool) -> str:
        parts = source.op.name.split("/")
        number = "_%d" % source.value_index if len(source.op.outputs) > 1 else ""
        return ("_".join(parts) if whole else parts[-1]) + number

    # The last part leaves the tower's scope out, tower_0/x and tower_1/x are both x.
    short = [name(source, False) for source in sources]
    return [each if short.count(each) == 1 else name(source, True) for each, source in zip(short, sources)]


def _alike(one: Sequence[Tuple[Tensor, Tensor, Any]], other: Sequence[Tuple[Tensor, Tensor, Any]]) -> bool:
    def kinds(pieces: Sequence[Tuple[Tensor, Tensor, Any]]) -> List[Tuple[DType, Optional[int]]]:
        return [(source.dtype.base_dtype, source.shape.ndims) for source, _, _ in pieces]

    return kinds(one) == kinds(other)


def draws_in(ops: AbstractSet[Operation]) -> Tuple[Dict[str, Tensor], Dict[str, Tensor]]:
    """Returns ``(draws, inside)``: outputs of random ops as dict of op name to tensor, and those in loops and branches."""
    draws: Dict[str, Tensor] = collections.OrderedDict()
    inside: Dict[str, Tensor] = collections.OrderedDict()
    for op in sorted(ops, key=lambda op: op._id):
        if op.type in RANDOM:
            found = draws if op.graph.is_fetchable(op.outputs[0]) else inside
            found[op.name] = op.outputs[0]
    return draws, inside
