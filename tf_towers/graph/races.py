"""Finds reads of variables that nothing keeps from coming after the variable's update in the same run."""

from typing import AbstractSet, Dict, List, Mapping, NamedTuple, Sequence, Tuple

import tensorflow.compat.v1 as tf

from tf_towers.graph.op_types import CHOOSING, ENTERING, READS, SHAPE_ONLY, WRITING
from tf_towers.graph.traversal import ancestors, earlier
from tf_towers.tf_types import Operation, Tensor, Variable

# Consumers that neither read a value nor write one.
NEITHER = SHAPE_ONLY | {"IsVariableInitialized", "VarIsInitializedOp", "Save", "SaveV2"}

READ_BY_UPDATES_ALONE = frozenset(["state", "slot"])  # which value one gets is what a race is about
WRITTEN_BY_UPDATES = frozenset(["var", "slot"])  # where such a race ends up; an average has a race of its own


class Race(NamedTuple):
    """One read that may see a variable before or after its update.

    Fields:
      variable: trace name, e.g. "var/conv1/kernel".
      reader, writer: names of the ops.
      reaches: list of the trace names that the reader's outcome flows into: other variables' updates, or "loss".
    """

    variable: str
    reader: str
    writer: str
    reaches: List[str]


def writers_of(variable: Variable, ops: AbstractSet[Operation]) -> List[Operation]:
    """Returns the ops among `ops` that write a variable, by name."""
    handles = _handles(variable)
    found = {op for handle in handles.values() for op in handle.consumers() if op in ops and _writes(op, handles)}
    return sorted(found, key=lambda op: op.name)


def _handles(variable: Variable) -> Dict[str, Tensor]:
    """The tensors by which a variable is written, by name: its own, and what hands it on into loops and branches."""
    found, pending = {}, list(variable.op.outputs)
    while pending:
        handle = pending.pop()
        found[handle.name] = handle
        # Only references and resources can be written through; a value that was read is no handle.
        passed = [out for op in handle.consumers() if op.type in ENTERING | CHOOSING for out in op.outputs]
        pending += [out for out in passed if out.dtype._is_ref_dtype or out.dtype == tf.resource]
    return found


def find_races(variables: Mapping[str, Variable], ops: AbstractSet[Operation], losses: Sequence[Tensor]) -> List[Race]:
    """Returns the `Race` of a training run; empty where every update waits for all that read the old value.

    With ref variables a read is an alias of the variable's buffer, so whatever computes with it must have run before the
    update; with resource variables it is enough that the read has. (A reference variable's `Identity` copies nothing.)

    Args:
      variables: dict of trace name to variable.
      ops: the set of ops that run, closed under `before`.
      losses: the tensors of the towers' losses.
    """
    touched = []
    for key, variable in variables.items():
        writers = writers_of(variable, ops)
        if writers:
            touched.append((key, _readers(variable, ops), writers))
    # A bit for each read and write of variables that this run writes: others cannot race.
    marked = sorted({op for _, readers, writers in touched for op in readers + writers}, key=lambda op: op.name)
    masks = earlier(ops, marked)
    bits = {op: 1 << number for number, op in enumerate(marked)}
    found = []
    for key, readers, writers in touched:
        for reader in readers:
            for writer in writers:
                # Either way round is an order: reading what was written is no race.
                ordered = masks[writer] & bits[reader] or masks[reader] & bits[writer]
                if reader is not writer and not ordered:
                    found.append((key, reader, writer))
    written = [(key, writer) for key, _, writers in touched for writer in writers]
    return [
        Race(key, reader.name, writer.name, _reached(key, reader, written, masks, bits, losses))
        for key, reader, writer in found
    ]


def _reached(
    key: str,
    reader: Operation,
    written: Sequence[Tuple[str, Operation]],
    masks: Mapping[Operation, int],
    bits: Mapping[Operation, int],
    losses: Sequence[Tensor],
) -> List[str]:
    reached = {other for other, writer in written if other != key and masks[writer] & bits[reader]}
    if any(masks.get(loss.op, 0) & bits[reader] for loss in losses):
        reached.add("loss")
    return sorted(reached)


def unordered_writers(variable: Variable, ops: AbstractSet[Operation]) -> List[str]:
    """Returns the names of the ops that write one variable in the same run in no given order, else an empty list."""
    writers = writers_of(variable, ops)
    for number, one in enumerate(writers):
        for other in writers[number + 1 :]:
            if one not in ancestors([other]) and other not in ancestors([one]):
                return [op.name for op in writers]
    return []


def _readers(variable: Variable, ops: AbstractSet[Operation]) -> List[Operation]:
    handles, found, pending, seen = _handles(variable), set(), list(variable.op.outputs), set()
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


def _writes(op: Operation, handles: Mapping[str, Tensor]) -> bool:
    return op.type.startswith(WRITING) and any(tensor.name in handles for tensor in list(op.inputs))
