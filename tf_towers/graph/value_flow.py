"""Finds what reads and writes variables, and follows values through a run: by inputs, branches and what is read again."""

from typing import AbstractSet, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

import tensorflow.compat.v1 as tf

from tf_towers.graph.op_types import CHOOSING, ENTERING, LEAVING_OR_MERGING, READS, SHAPE_ONLY, WRITING
from tf_towers.graph.traversal import earlier, in_order
from tf_towers.tf_types import Operation, Tensor, Variable

# Consumers that neither read a value nor write one.
NEITHER = SHAPE_ONLY | {"IsVariableInitialized", "VarIsInitializedOp", "Save", "SaveV2"}


def writers_of(variable: Variable, ops: AbstractSet[Operation]) -> List[Operation]:
    """Returns the ops among `ops` that write a variable, by name."""
    return _writers(_handles(variable.op), ops)


def readers_of(keeper: Operation, ops: AbstractSet[Operation]) -> List[Operation]:
    """Returns the ops among `ops` that read a variable or the like, by name; of a reference, those that compute with it.

    Args:
      keeper: the variable's op.
      ops: set of ops.
    """
    handles, found, pending, seen = _handles(keeper), set(), list(keeper.outputs), set()
    while pending:
        tensor = pending.pop()
        for op in tensor.consumers():
            if op not in ops or op in seen or op.type in NEITHER or _writes(op, handles):
                continue
            seen.add(op)
            if op.type in READS:
                found.add(op)
            # Of a reference variable these copy nothing: the read that can come too late is that of whoever computes
            # with them.
            elif op.type == "Identity" or op.type in ENTERING | CHOOSING:
                pending += op.outputs
            else:
                found.add(op)
    return sorted(found, key=lambda op: op.name)


def carried(ops: AbstractSet[Operation], sources: Sequence[Operation]) -> Dict[Operation, int]:
    """Tells for every op which sources' values may decide what it computes or writes; what only waits takes no value.

    Args:
      ops: the set of ops that run, closed under `before`.
      sources: list of ops among them.

    Returns:
      Dict of op to an int whose bit k is set where ``sources[k]`` is that op or its value may go into that op.
    """
    order = in_order(ops)
    taken = _taken(order)
    masks = dict.fromkeys(order, 0)
    masks.update((op, 1 << number) for number, op in enumerate(sources))
    changed = True
    # Again where a loop closes, or where a write that may come before a read stands behind it in this order.
    while changed:
        changed = False
        for op in order:
            mask = masks[op]
            for other in taken[op]:
                mask |= masks[other]
            changed = changed or mask != masks[op]
            masks[op] = mask
    return masks


def _taken(order: Sequence[Operation]) -> Dict[Operation, List[Operation]]:
    """The ops that each takes values from: of its inputs, of the condition that it is there at all, of what it reads."""
    found, guarded, chosen = {}, set(), set()
    for op in order:
        inputs, awaited = [tensor.op for tensor in op.inputs], list(op.control_inputs)
        behind = any(other in guarded for other in inputs + awaited)
        if op.type in CHOOSING or (behind and op.type not in LEAVING_OR_MERGING):
            guarded.add(op)
        if any(other in guarded for other in inputs):
            chosen.add(op)  # also the Merge of a branch that hands a variable on as it is
        # A constant of a branch only waits for the condition, and its value is the branch's where that was chosen:
        # tf.train.piecewise_constant on 1.15.
        found[op] = inputs or [other for other in awaited if other in guarded]
    for reader, writer in _writes_before_reads(set(order), chosen):
        found[reader] = found[reader] + [writer]
    return found


def _writes_before_reads(
    ops: AbstractSet[Operation], chosen: AbstractSet[Operation]
) -> Iterator[Tuple[Operation, Operation]]:
    """Yields pairs of a read of what is kept in place and a write of it that comes before it, or may for want of an order.

    Writes read too: most add to what is there. A read in a branch has to come after the write: a batch norm reads its moving
    statistics in the branch that is not taken in training, in no order with their update.
    """
    kept = _kept_values(ops)
    marked = sorted({op for each in kept for op in each.readers + each.writers}, key=lambda op: op.name)
    masks = earlier(ops, marked)
    bits = {op: 1 << number for number, op in enumerate(marked)}
    for each in kept:
        for reader in dict.fromkeys(each.readers + each.writers):
            for writer in each.writers:
                after = masks[reader] & bits[writer] or (reader not in chosen and not masks[writer] & bits[reader])
                if reader is not writer and after:
                    yield reader, writer


class _KeptValue(NamedTuple):
    """What takes a value that is kept in place.

    Fields:
      readers, writers: lists of ops, by name; an op may be in both.
    """

    readers: List[Operation]
    writers: List[Operation]


def _kept_values(ops: AbstractSet[Operation]) -> List[_KeptValue]:
    """Returns a `_KeptValue` for each variable, stack, queue or table that a run writes, by the name of its op."""
    found = []
    for keeper in sorted((op for op in ops if _keeps_a_value(op)), key=lambda op: op.name):
        handles = _handles(keeper)
        readers, writers = readers_of(keeper, ops), _writers(handles, ops)
        # Only of variables it is known what writes them. A push, or a loop of TensorFlow 2 with a variable, may do either.
        unknown = [op for op in readers if op.type not in READS and _takes_a_resource(op, handles)]
        if writers or unknown:
            found.append(_KeptValue(readers, sorted({*writers, *unknown}, key=lambda op: op.name)))
    return found


def _writers(handles: Mapping[str, Tensor], ops: AbstractSet[Operation]) -> List[Operation]:
    found = {op for handle in handles.values() for op in handle.consumers() if op in ops and _writes(op, handles)}
    return sorted(found, key=lambda op: op.name)


def _handles(keeper: Operation) -> Dict[str, Tensor]:
    """The tensors by which a variable is written, by name: its own, and what hands it on into loops and branches."""
    found, pending = {}, list(keeper.outputs)
    while pending:
        handle = pending.pop()
        found[handle.name] = handle
        # Only references and resources can be written through; a value that was read is no handle.
        passed = [out for op in handle.consumers() if op.type in ENTERING | CHOOSING for out in op.outputs]
        pending += [out for out in passed if _is_handle(out)]
    return found


def _is_handle(tensor: Tensor) -> bool:
    return bool(tensor.dtype._is_ref_dtype) or tensor.dtype == tf.resource


def _keeps_a_value(op: Operation) -> bool:
    return any(_is_handle(out) for out in op.outputs) and not any(_is_handle(tensor) for tensor in op.inputs)


def _writes(op: Operation, handles: Mapping[str, Tensor]) -> bool:
    return op.type.startswith(WRITING) and any(tensor.name in handles for tensor in list(op.inputs))


def _takes_a_resource(op: Operation, handles: Mapping[str, Tensor]) -> bool:
    return any(tensor.name in handles and tensor.dtype == tf.resource for tensor in op.inputs)
