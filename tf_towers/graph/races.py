"""Finds reads of variables that nothing keeps from coming after the variable's update in the same run."""

from typing import AbstractSet, List, Mapping, NamedTuple, Sequence

from tf_towers.graph.traversal import ancestors, earlier
from tf_towers.graph.value_flow import carried, readers_of, writers_of
from tf_towers.tf_types import Operation, Tensor, Variable

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
            touched.append((key, readers_of(variable.op, ops), writers))
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
    if not found:
        return []
    # Where the value goes, and not what waits for it: an update that waits for all moving statistics takes none of them.
    racing = sorted({reader for _, reader, _ in found}, key=lambda op: op.name)
    values = carried(ops, racing)
    bits = {op: 1 << number for number, op in enumerate(racing)}
    results = [(key, writer) for key, _, writers in touched for writer in writers]
    results += [("loss", loss.op) for loss in losses if loss.op in values]
    return [
        Race(
            key,
            reader.name,
            writer.name,
            sorted({other for other, op in results if other != key and values[op] & bits[reader]}),
        )
        for key, reader, writer in found
    ]


def unordered_writers(variable: Variable, ops: AbstractSet[Operation]) -> List[str]:
    """Returns the names of the ops that write one variable in the same run in no given order, else an empty list."""
    writers = writers_of(variable, ops)
    for number, one in enumerate(writers):
        for other in writers[number + 1 :]:
            if one not in ancestors([other]) and other not in ancestors([one]):
                return [op.name for op in writers]
    return []
