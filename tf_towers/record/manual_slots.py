"""Finds the slots of updates that a script writes itself, and tells by what they hold which slot is which."""

import collections
import re
from typing import TYPE_CHECKING, AbstractSet, Dict, List, Sequence, Tuple

from tf_towers.graph.op_types import ADDING, READING
from tf_towers.graph.races import writers_of
from tf_towers.record.gradient_flow import Flow, bits
from tf_towers.tf_types import Graph, Operation, Tensor, Variable

if TYPE_CHECKING:
    from tf_towers.record.manual_updates import Written


NUMBERED = re.compile(r"_\d+$")


def slots_by_hand(
    graph: Graph, ops: AbstractSet[Operation], flow: Flow, written: "Sequence[Written]", weights: AbstractSet[str]
) -> Dict[Tuple[str, str], Variable]:
    """Returns dict of ``(slot, weight)`` to variable: those of a weight's shape that its update reads and the run writes.

    What is written into a slot is computed from the weight's gradient; a counter is not. A slot goes by what it holds,
    as TensorFlow's optimizers call it, where that is clear: scripts call theirs "Variable_7" or "w/adam_mg".

    Args:
      graph: the graph that runs.
      ops: the set of ops that the run needs.
      flow: the `Flow` of the gradients to the weights' writers.
      written: list of `Written`.
      weights: names of the variables that have gradients.
    """
    of_bit = {each.bit: each for each in written}
    of_weight: Dict[str, List[Tuple[Variable, List[Operation]]]] = collections.OrderedDict()
    for other in graph.get_collection("variables"):
        read = flow.updates_of(other.op)
        writers = writers_of(other, ops) if read and other.op.name not in weights else []
        for number in bits(read) if writers else ():
            weight = of_bit.get(1 << number)
            if weight is not None and _is_slot(other, writers, weight, flow):
                of_weight.setdefault(weight.variable.op.name, []).append((other, writers))
    slots = collections.OrderedDict()
    for name, found in of_weight.items():
        for slot, (variable, _) in zip(_named(found, name, flow), found):
            slots[slot, name] = variable
    return slots


def _is_slot(variable: Variable, writers: Sequence[Operation], weight: "Written", flow: Flow) -> bool:
    shapes = variable.shape, weight.variable.shape
    alike = None not in (shapes[0].ndims, shapes[1].ndims) and shapes[0].as_list() == shapes[1].as_list()
    return alike and any(flow.gradients_into(op) & weight.gradients for op in writers)


def _named(found: Sequence[Tuple[Variable, Sequence[Operation]]], weight: str, flow: Flow) -> List[str]:
    squared = [any(flow.is_squared(op) for op in writers) for _, writers in found]
    if squared.count(True) > 1 or squared.count(False) > 1:
        return _own_names([variable.op.name for variable, _ in found], weight)
    if len(found) == 2:
        return ["v" if each else "m" for each in squared]
    if not squared[0]:
        return ["momentum"]
    return ["accumulator" if _adds_up(*found[0]) else "rms"]


def _own_names(names: Sequence[str], weight: str) -> List[str]:
    own = [name[len(weight) :] if name.startswith(weight) else name.rpartition("/")[2] for name in names]
    own = [NUMBERED.sub("", each.strip("/_").lower().replace("/", "_")) for each in own]
    clear = len(set(own)) == len(own) and not any(each in ("", "variable") for each in own)
    return own if clear else [f"slot_{number}" for number in range(len(names))]


def _adds_up(variable: Variable, writers: Sequence[Operation]) -> bool:
    """Tells whether what is written is all of the old value and more: Adagrad's sum."""
    (writer,) = writers[:1]
    if writer.type in ("AssignAdd", "AssignAddVariableOp"):
        return True
    value = writer.inputs[1].op
    return value.type in ADDING and any(_reads(tensor, variable) for tensor in value.inputs)


def _reads(tensor: Tensor, variable: Variable) -> bool:
    op = tensor.op
    while op.type in READING and len(op.inputs):
        op = op.inputs[0].op
    return op is variable.op
