"""Finds updates that a script writes itself: assignments to weights that go back to their gradients."""

import collections

from tensorflow.python.framework import tensor_util

from tf_towers.record.calls import ApplyCall
from tf_towers.record.combination import ADDING, STACKING
from tf_towers.record.races import writers_of
from tf_towers.record.towers import values_of

PASSING = frozenset(["Identity", "Reshape", "Squeeze"])


class HandWritten(object):
    """Stands where TensorFlow has an optimizer.

    Args:
      slots: dict of ``(slot, variable name)`` to variable.
    """

    _name = "hand_written"

    def __init__(self, slots):
        self._slots = slots

    def get_slot_names(self):
        """Returns the sorted names of the slots."""
        return sorted({slot for slot, _ in self._slots})

    def get_slot(self, variable, slot):
        """Returns the slot of a variable, or None."""
        return self._slots.get((slot, variable.op.name))


def update_by_hand(graph, ops, calls):
    """Returns an `ApplyCall` of a run whose weights are assigned what is computed from gradients, or None.

    Args:
      graph: the graph that runs.
      ops: the set of ops that the run needs.
      calls: list of `GradientCall`.
    """
    marks = _marks(graph, calls)
    found = collections.OrderedDict()
    for name, (variable, gradients) in marks.items():
        for writer in writers_of(variable, ops):
            behind = _behind(writer)
            used = [each for each in gradients if each.name in behind]
            if used:
                found[name] = (variable, writer, behind, used)
    if not found:
        return None
    pairs = [(_applied(behind, used), variable) for variable, _, behind, used in found.values()]
    first = next(iter(found.values()))[1]
    trainable = set(marks)
    slots = {}
    for variable, _, behind, _ in found.values():
        slots.update(_slots(graph, ops, variable, behind, trainable))
    return ApplyCall(HandWritten(slots), pairs, None, first)


def _marks(graph, calls):
    marks = collections.OrderedDict()
    for call in calls:
        for gradient, variable in call.pairs:
            if gradient is not None and call.graph is graph:
                marks.setdefault(variable.op.name, (variable, []))[1].append(values_of(gradient))
    return marks


def _behind(writer):
    """Dict of name to tensor: everything that the written value is computed from."""
    found, pending = {}, list(writer.inputs)
    while pending:
        tensor = pending.pop()
        if tensor.name not in found:
            found[tensor.name] = tensor
            pending += list(tensor.op.inputs)
    return found


def _applied(behind, used):
    """The tensor in which the towers' gradients are joined, constant factors of an average included."""
    reach = {}
    names = {tensor.name for tensor in used}
    ordered = sorted(behind.values(), key=lambda tensor: tensor.op._id)
    for tensor in ordered:
        own = {tensor.name} & names
        reach[tensor.name] = own or set().union(*(reach.get(each.name, set()) for each in tensor.op.inputs))
    joined = next(tensor for tensor in ordered if reach[tensor.name] == names)
    while True:
        readers = [op for op in joined.consumers() if any(out.name in behind for out in op.outputs)]
        if len(readers) != 1 or not _belongs(readers[0], joined, len(names)):
            return joined
        joined = readers[0].outputs[0]


def _belongs(op, tensor, towers):
    if towers < 2:
        return False
    if op.type in PASSING:
        return True
    if tensor.op.type in STACKING:
        return op.type in ("Mean", "Sum")
    if tensor.op.type not in ADDING or op.type not in ("Mul", "RealDiv", "Div", "DivNoNan"):
        return False
    others = [tensor_util.constant_value(each) for each in op.inputs if each is not tensor]
    wanted = 1.0 / towers if op.type == "Mul" else float(towers)
    return any(value is not None and value.size == 1 and abs(float(value) / wanted - 1) < 1e-6 for value in others)


def _slots(graph, ops, variable, behind, weights):
    """Variables of the weight's shape that its update reads, and that the run writes too."""
    shape = variable.shape.as_list()
    slots = {}
    for other in graph.get_collection("variables"):
        name = other.op.name
        read = any(tensor.op.name == name for tensor in behind.values())
        if read and name not in weights and other.shape.as_list() == shape and writers_of(other, ops):
            own = name[len(variable.op.name) :] if name.startswith(variable.op.name) else name.rpartition("/")[2]
            slots[own.strip("/_").lower().replace("/", "_"), variable.op.name] = other
    return slots
