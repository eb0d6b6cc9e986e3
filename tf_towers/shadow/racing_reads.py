"""Finds reads of counters and slots that may come before or after their update; hands them either value."""

import collections
from typing import AbstractSet, Dict, Iterable, List, Mapping, NamedTuple, Sequence, Set, Tuple

import numpy as np

from parity.trace import parse_key, quantity_of
from parity.trace.arrays import Tensors
from tf_towers.float64.graph_def import add_placeholder, by_name, full, op_of
from tf_towers.graph.op_types import CHOOSING, REFERENCES, WRITING
from tf_towers.graph.races import READ_BY_UPDATES_ALONE, WRITTEN_BY_UPDATES
from tf_towers.tf_types import Graph, GraphDef, NodeDef

# Of squared distances: where both orders are as near, as with a counter that the rate hardly feels, rounding does not
# decide, and the read before the update is taken.
CLEARLY = 0.5


class InOrder(NamedTuple):
    """A step of a script that races, in the order in which the script made it.

    Fields:
      values: dict of trace name to array.
      others: dict of trace name to array in the other order, where that is another number.
    """

    values: Tensors
    others: Tensors


def hand_racing_reads(
    definition: GraphDef, typed: Graph, updating: AbstractSet[str], variables: Mapping[str, str]
) -> Dict[str, str]:
    """Has every racing read that an update of weights or slots is computed from take its value from a placeholder, in place.

    Args:
      definition: a GraphDef.
      typed: the same as a `tf.Graph`.
      updating: set of the names of the ops of the second go.
      variables: dict of trace name to the name of a variable.

    Returns:
      Dict of placeholder to the trace name of the variable that is read.
    """
    nodes = by_name(definition)
    readers = _readers(definition)
    racing: Dict[str, str] = {}
    updates = _updates(
        nodes, readers, updating, [name for key, name in variables.items() if quantity_of(key) in WRITTEN_BY_UPDATES]
    )
    for key, name in sorted(variables.items()):
        if quantity_of(key) not in READ_BY_UPDATES_ALONE or name not in nodes:
            continue
        writers = [each for each in readers.get(name, ()) if each in updating and _writes(nodes, each, name)]
        reads = _reads(nodes, readers, updating, name) if writers else []
        # Those in an order are left alone: TensorFlow makes them read what the script read.
        late = _unordered(nodes, updating, sorted({reader for reader, _ in reads}), writers)
        places = [(reader, tensor) for reader, tensor in reads if reader in late and reader in updates]
        if not places:
            continue
        dtype = typed.get_tensor_by_name(places[0][1]).dtype.base_dtype
        placeholder = add_placeholder(definition, f"shadow_racing/{len(racing)}", dtype)
        racing[op_of(placeholder)] = key
        for reader, tensor in places:
            # A ReadVariableOp is handed over by its output, which others read; with a reference the reader reads the buffer.
            changed = readers.get(reader, ()) if nodes[reader].op == "ReadVariableOp" else [reader]
            _redirect(nodes, [each for each in changed if each in updating], tensor, placeholder)
    return racing


def nearest_order(before: Tensors, after: Tensors, recorded: Tensors) -> InOrder:
    """Chooses for every variable the order that is nearer to what was recorded; returns an `InOrder`.

    Args:
      before: dict of trace name to array, with what races read before its update.
      after: the same with it read after that.
      recorded: the script's own values.
    """
    groups: Dict[str, List[str]] = collections.OrderedDict()
    for key in before:
        groups.setdefault(parse_key(key).name if quantity_of(key) != "state" else key, []).append(key)
    values: Tensors = {}
    others: Tensors = {}
    for keys in groups.values():
        # All tensors of one variable go together: its slots and itself were updated from one read.
        late = _distance(after, recorded, keys) < CLEARLY * _distance(before, recorded, keys)
        chosen, other = (after, before) if late else (before, after)
        values.update((key, chosen[key]) for key in keys)
        others.update((key, other[key]) for key in keys if not np.array_equal(chosen[key], other[key]))
    return InOrder(values, others)


def _distance(computed: Tensors, recorded: Tensors, keys: Sequence[str]) -> float:
    apart = (np.asarray(computed[key], np.float64) - recorded[key] for key in keys if key in recorded)
    return sum(float(np.sum(np.square(each))) for each in apart)


def _readers(definition: GraphDef) -> Dict[str, List[str]]:
    """Dict of an op's name to those of the ops that have an output of it as input."""
    readers: Dict[str, List[str]] = {}
    for node in definition.node:
        for text in node.input:
            if not text.startswith("^"):
                readers.setdefault(op_of(text), []).append(node.name)
    return readers


def _reads(
    nodes: Mapping[str, NodeDef], readers: Mapping[str, Sequence[str]], updating: AbstractSet[str], name: str
) -> List[Tuple[str, str]]:
    """List of ``(reader, tensor)``: with a reference variable what computes with it, else the op that reads it."""
    direct = readers.get(name, ())
    if nodes[name].op not in REFERENCES:
        return [(each, full(each)) for each in direct if each in updating and nodes[each].op == "ReadVariableOp"]
    # A reference variable's Identity is the same buffer and copies nothing: its readers race as much.
    aliases = [name] + [each for each in direct if nodes[each].op == "Identity"]
    found = []
    for each in sorted({reader for alias in aliases for reader in readers.get(alias, ())} & updating - set(aliases)):
        inputs = [text for text in nodes[each].input if not text.startswith("^")]
        # The first input of an op that writes is the buffer it writes to, and no read.
        values = inputs[1:] if nodes[each].op.startswith(WRITING) else inputs
        found += [(each, full(text)) for text in values if op_of(text) in aliases]
    return found


def _updates(
    nodes: Mapping[str, NodeDef], readers: Mapping[str, Sequence[str]], updating: AbstractSet[str], names: Sequence[str]
) -> Set[str]:
    """The ops that write variables, with all that what they write is computed from."""
    pending = [
        each for name in names for each in readers.get(name, ()) if each in updating and _writes(nodes, each, name)
    ]
    found = set(pending)
    while pending:
        for other in _taken(nodes, pending.pop()):
            if other in updating and other not in found:
                found.add(other)
                pending.append(other)
    return found


def _taken(nodes: Mapping[str, NodeDef], name: str) -> List[str]:
    """The ops that one takes values from: its inputs, or the conditions that a constant of a branch waits for."""
    inputs = [op_of(text) for text in nodes[name].input if not text.startswith("^")]
    return inputs or [op_of(text) for text in nodes[name].input if _is_pivot(nodes, op_of(text))]


def _is_pivot(nodes: Mapping[str, NodeDef], name: str) -> bool:
    """Whether an op is there in one branch alone: the output of a Switch, handed on."""
    return name in nodes and nodes[name].op == "Identity" and nodes[op_of(nodes[name].input[0])].op in CHOOSING


def _writes(nodes: Mapping[str, NodeDef], each: str, name: str) -> bool:
    node = nodes[each]
    return node.op.startswith(WRITING) and any(op_of(text) == name for text in node.input if not text.startswith("^"))


def _unordered(
    nodes: Mapping[str, NodeDef], updating: AbstractSet[str], readers: Sequence[str], writers: Sequence[str]
) -> Set[str]:
    """Those readers that come neither before a writer nor after it."""
    after_writers = {writer: _behind(nodes, updating, writer) for writer in writers}
    return {
        reader
        for reader in readers
        for writer in writers
        if reader != writer and reader not in after_writers[writer] and writer not in _behind(nodes, updating, reader)
    }


def _behind(nodes: Mapping[str, NodeDef], updating: AbstractSet[str], name: str) -> Set[str]:
    """What has to run before an op, among the ops of the second go."""
    seen, pending = set(), [name]
    while pending:
        for text in nodes[pending.pop()].input:
            other = op_of(text)
            if other in updating and other not in seen:
                seen.add(other)
                pending.append(other)
    return seen


def _redirect(nodes: Mapping[str, NodeDef], changed: Iterable[str], tensor: str, placeholder: str) -> None:
    for name in changed:
        for place, text in enumerate(nodes[name].input):
            if not text.startswith("^") and full(text) == tensor:
                nodes[name].input[place] = placeholder
