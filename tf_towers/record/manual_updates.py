"""Finds updates that a script writes itself: assignments to weights that go back to their gradients, and their slots."""

import collections
import heapq
import re
from typing import AbstractSet, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from tensorflow.python.framework import tensor_util

from tf_towers.graph.op_types import (
    BOUNDING,
    PASSING_VALUES,
    READING_VARIABLES,
    SCALING,
    SHAPE_ONLY,
    SQUARE_ROOTS,
    SQUARING,
    STACKING_TENSORS,
    SUMMING,
    VARIABLES,
)
from tf_towers.graph.traversal import ancestors, in_order
from tf_towers.graph.value_flow import writers_of
from tf_towers.record.hooks import ApplyCall, GradientCall
from tf_towers.record.towers import values_of
from tf_towers.tf_types import Graph, Operation, Tensor, Variable

# Follows gradients through a graph to the updates that use them, in passes that touch every op once.


class Flow:
    """Knows which gradients every op computes with, and which updates every op is computed for.

    Sets are kept as the bits of an int: a graph with as many gradients as weights is walked once, not once for each.

    Args:
      ops: the set of ops that run, closed under `before`.
      gradients: list of tensors; what they are computed from is not looked at.
      updates: list of the ops whose inputs are followed back.
    """

    def __init__(self, ops: AbstractSet[Operation], gradients: Sequence[Tensor], updates: Sequence[Operation]) -> None:
        self._bits = {tensor.name: 1 << number for number, tensor in enumerate(gradients)}
        self._squared: Dict[Operation, bool] = {}
        self._reading: Set[Operation] = set()
        self._readers: Dict[str, List[Operation]] = {}
        # Inputs come before readers, so that each op is looked at once, forwards and backwards.
        order = in_order(ops)
        self._into = self._forward(order)
        self._onto = self._backward(order, {op: 1 << number for number, op in enumerate(updates)})

    def bit(self, tensor: Tensor) -> int:
        """Returns the bit of one of the gradients."""
        return self._bits[tensor.name]

    def gradients_in(self, tensor: Tensor) -> int:
        """Returns the bits of the gradients that a tensor is computed from."""
        return self._bits.get(tensor.name) or self._into.get(tensor.op, 0)

    def gradients_into(self, op: Operation) -> int:
        """Returns the bits of the gradients that the inputs of an op are computed from."""
        return self._into.get(op, 0)

    def updates_of(self, op: Operation) -> int:
        """Returns the bits of the updates that are computed from an op, by way of no gradient."""
        return self._onto.get(op, 0)

    def is_squared(self, op: Operation) -> bool:
        """Tells whether an op computes with the squares of a gradient's elements."""
        return self._squared.get(op, False)

    def readers(self, tensor: Tensor) -> List[Operation]:
        """Returns the ops that read a tensor."""
        if tensor.name not in self._readers:
            self._readers[tensor.name] = tensor.consumers()
        return self._readers[tensor.name]

    def reads_variables(self, op: Operation) -> bool:
        """Tells whether an op computes with the value of a variable, by way of no gradient."""
        return op in self._reading

    def _forward(self, order: Sequence[Operation]) -> Dict[Operation, int]:
        into: Dict[Operation, int] = {}
        for op in order:
            mask, masks, squared, reading = 0, [], False, op.type in VARIABLES
            for tensor in op.inputs:
                own = self._bits.get(tensor.name)
                # A gradient has its own bit only: whatever it is computed from, say gradients of later layers, is not
                # looked at.
                masks.append(own or into.get(tensor.op, 0))
                mask |= masks[-1]
                reading = reading or (not own and tensor.op in self._reading)
                squared = squared or (not own and self._squared.get(tensor.op, False) and _fits(tensor, op))
            into[op] = mask
            # A shape is no value: tf.zeros_like(w) reads nothing of the weight.
            if reading and op.type not in SHAPE_ONLY:
                self._reading.add(op)
            # A root takes the square back: what follows it is of the gradient's own order again.
            self._squared[op] = bool(mask) and op.type not in SQUARE_ROOTS and (squared or _squares(op, masks))
        return into

    def _backward(self, order: Sequence[Operation], onto: Dict[Operation, int]) -> Dict[Operation, int]:
        for op in reversed(order):
            mask = onto.get(op, 0)
            for tensor in op.inputs if mask else ():
                # Not past a gradient: the forward and the backward pass behind it are no part of an update.
                if tensor.name not in self._bits:
                    onto[tensor.op] = onto.get(tensor.op, 0) | mask
        return onto


def bits(mask: int) -> Iterator[int]:
    """Yields the numbers of the bits that are set in an int."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _squares(op: Operation, masks: Sequence[int]) -> bool:
    """Tells whether an op multiplies two multiples of a gradient, as ``(1 - b2) * g * g`` does; a norm is a scalar."""
    if op.type in SQUARING:
        return True
    return op.type == "Mul" and masks[0] == masks[1] and op.inputs[0].shape.ndims == op.inputs[1].shape.ndims


def _fits(tensor: Tensor, op: Operation) -> bool:
    """Tells elementwise ops from sums over all elements, as in a norm."""
    shapes = [each.shape for each in list(op.outputs)[:1]]
    return not shapes or shapes[0].ndims is None or shapes[0].ndims >= (tensor.shape.ndims or 0)


# Finds the updates, and their slots.

# TensorFlow makes a name unique by a number behind it: the slots of one kind are m, m_1, m_2.
NUMBER_AT_THE_END = re.compile(r"_\d+$")


class Written(NamedTuple):
    """A weight that is assigned what is computed from its gradients.

    Fields:
      variable: the weight.
      writer: the op that assigns.
      used: list of the tensors of its gradients that the assigned value is computed from.
      gradients: their bits in the `Flow`.
      bit: the writer's.
    """

    variable: Variable
    writer: Operation
    used: List[Tensor]
    gradients: int
    bit: int


class HandWritten:
    """Stands where TensorFlow has an optimizer.

    Args:
      slots: dict of ``(slot, variable name)`` to variable.
    """

    # As `tf.train.Optimizer` has it: sections of a trace are named by it.
    _name = "hand_written"

    def __init__(self, slots: Dict[Tuple[str, str], Variable]) -> None:
        self._slots = slots

    def get_slot_names(self) -> List[str]:
        """Returns the sorted names of the slots."""
        return sorted({slot for slot, _ in self._slots})

    def get_slot(self, variable: Variable, slot: str) -> Variable:
        """Returns the slot of a variable, or None."""
        return self._slots.get((slot, variable.op.name))


def is_by_hand(apply: ApplyCall) -> bool:
    """Tells whether a script computes its updates itself: with assignments alone, or in an optimizer of its own class.

    Its numbers are then the script's: no optimizer of TensorFlow's rounds them.
    """
    if isinstance(apply.optimizer, HandWritten):
        return True
    if type(apply.optimizer).__module__.partition(".")[0].startswith("tensorflow"):
        return False
    # A class of the script's may also only prepare what a kernel of TensorFlow's then does.
    ops = ancestors([apply.op])
    writers = [op for _, variable in apply.pairs for op in writers_of(variable, ops)]
    return bool(writers) and all(op.type.startswith("Assign") for op in writers)


def update_by_hand(graph: Graph, ops: AbstractSet[Operation], calls: Sequence[GradientCall]) -> Optional[ApplyCall]:
    """Returns an `ApplyCall` of a run whose weights are assigned what is computed from gradients, or None.

    Args:
      graph: the graph that runs.
      ops: the set of ops that the run needs.
      calls: list of `GradientCall`.
    """
    marks = _marks(graph, calls)
    writers = [(variable, op) for variable, _ in marks.values() for op in writers_of(variable, ops)]
    if not writers:
        return None
    gradients = [tensor for _, tensors in marks.values() for tensor in tensors]
    flow = Flow(ops, gradients, [op for _, op in writers])
    found = collections.OrderedDict()
    # `number` is the writer's bit: `Flow` was given the writers in this order.
    for number, (variable, writer) in enumerate(writers):
        own = marks[variable.op.name][1]
        # Of the weight's own gradients: a clip by global norm brings those of all weights into every writer.
        used = [tensor for tensor in own if flow.gradients_into(writer) & flow.bit(tensor)]
        if used:
            # Each bit once, for the same gradient may be used several times.
            mask = sum({flow.bit(tensor) for tensor in used})
            found[variable.op.name] = Written(variable, writer, used, mask, 1 << number)
    if not found:
        return None
    pairs = [(_clipped(flow, _applied(flow, each), each), each.variable) for each in found.values()]
    slots = _slots_by_hand(graph, ops, flow, list(found.values()), set(marks))
    return ApplyCall(HandWritten(slots), pairs, None, next(iter(found.values())).writer)


def _marks(graph: Graph, calls: Sequence[GradientCall]) -> Dict[str, Tuple[Variable, List[Tensor]]]:
    marks: Dict[str, Tuple[Variable, List[Tensor]]] = collections.OrderedDict()
    for call in calls:
        for gradient, variable in call.pairs:
            if gradient is not None and call.graph is graph:
                marks.setdefault(variable.op.name, (variable, []))[1].append(values_of(gradient))
    return marks


def _applied(flow: Flow, written: Written) -> Tensor:
    """The tensor in which the towers' gradients are joined, constant factors of an average included."""
    joined, towers = _joined(flow, written), len({tensor.name for tensor in written.used})
    while True:
        readers = [op for op in joined.consumers() if flow.updates_of(op) & written.bit]
        # With a second reader, such as the norm of a clip, this is the gradient that the update goes on with.
        if len(readers) != 1 or not _belongs(readers[0], joined, towers):
            return joined
        joined = readers[0].outputs[0]


def _clipped(flow: Flow, joined: Tensor, written: Written) -> Tensor:
    """What an update uses of a gradient whose norm or elements are bounded first; else the gradient itself.

    That is the last tensor behind a minimum, a maximum or a choice that all goes through which the update uses of the
    gradient, and that is computed from no variable: an optimizer's own divisions need slots, and a rate bounds nothing.
    """
    found, bounded = joined, False
    waiting: List[Tuple[int, Operation]] = []
    seen: Set[int] = set()
    _wait_for_readers(flow, joined, written, waiting, seen)
    while waiting:
        _, op = heapq.heappop(waiting)
        if flow.reads_variables(op):
            break
        bounded = bounded or op.type in BOUNDING
        copied = found is not joined and op.type in PASSING_VALUES and op.inputs[0] is found
        # Ops come in the order of making: where none other waits, every path from the gradient meets in this one.
        if not waiting and (bounded or copied) and op.outputs[0].shape.ndims == joined.shape.ndims:
            found, bounded = op.outputs[0], False
        for out in op.outputs:
            _wait_for_readers(flow, out, written, waiting, seen)
    return found


def _wait_for_readers(
    flow: Flow, tensor: Tensor, written: Written, waiting: List[Tuple[int, Operation]], seen: Set[int]
) -> None:
    for op in flow.readers(tensor):
        if op._id not in seen and flow.updates_of(op) & written.bit:
            seen.add(op._id)
            heapq.heappush(waiting, (op._id, op))


def _joined(flow: Flow, written: Written) -> Tensor:
    """The first tensor, in the order of making, that is computed from all gradients and that the update needs."""
    # A single tower's gradient, or one call over all towers' losses: nothing is joined.
    first = min(written.used, key=lambda tensor: tensor.op._id)
    if flow.gradients_in(first) & written.gradients == written.gradients:
        return first
    seen = set()
    waiting = [(op._id, op) for tensor in written.used for op in tensor.consumers()]
    heapq.heapify(waiting)
    while True:
        _, op = heapq.heappop(waiting)
        if op._id in seen or not flow.updates_of(op) & written.bit:
            continue
        seen.add(op._id)
        if flow.gradients_into(op) & written.gradients == written.gradients:
            return next(out for out in op.outputs if any(flow.updates_of(each) for each in out.consumers()))
        for out in op.outputs:
            for reader in out.consumers():
                heapq.heappush(waiting, (reader._id, reader))


def _belongs(op: Operation, tensor: Tensor, towers: int) -> bool:
    if towers < 2:
        return False
    if op.type in PASSING_VALUES:
        return True
    if tensor.op.type in STACKING_TENSORS:
        return op.type in ("Mean", "Sum")
    if tensor.op.type not in SUMMING or op.type not in SCALING:
        return False
    others = [tensor_util.constant_value(each) for each in op.inputs if each is not tensor]
    # Another factor is the rate or a clip: it is no part of the average.
    wanted = 1.0 / towers if op.type == "Mul" else float(towers)
    # float32 constants are off by at most 2^-24 = 6e-8 of themselves.
    return any(value is not None and value.size == 1 and abs(float(value) / wanted - 1) < 1e-6 for value in others)


def _slots_by_hand(
    graph: Graph, ops: AbstractSet[Operation], flow: Flow, written: Sequence[Written], weights: AbstractSet[str]
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


def _is_slot(variable: Variable, writers: Sequence[Operation], weight: Written, flow: Flow) -> bool:
    # A counter or a decay has another shape; a slot that is broadcast is not known.
    shapes = variable.shape, weight.variable.shape
    alike = None not in (shapes[0].ndims, shapes[1].ndims) and shapes[0].as_list() == shapes[1].as_list()
    return alike and any(flow.gradients_into(op) & weight.gradients for op in writers)


def _named(found: Sequence[Tuple[Variable, Sequence[Operation]]], weight: str, flow: Flow) -> List[str]:
    squared = [any(flow.is_squared(op) for op in writers) for _, writers in found]
    if squared.count(True) > 1 or squared.count(False) > 1:
        return _own_names([variable.op.name for variable, _ in found], weight)
    # One squared and one not: Adam's second and first moments.
    if len(found) == 2:
        return ["v" if each else "m" for each in squared]
    if not squared[0]:
        return ["momentum"]
    return ["accumulator" if _adds_up(*found[0]) else "rms"]


def _own_names(names: Sequence[str], weight: str) -> List[str]:
    own = [name[len(weight) :] if name.startswith(weight) else name.rpartition("/")[2] for name in names]
    own = [NUMBER_AT_THE_END.sub("", each.strip("/_").lower().replace("/", "_")) for each in own]
    clear = len(set(own)) == len(own) and not any(each in ("", "variable") for each in own)
    return own if clear else [f"slot_{number}" for number in range(len(names))]


def _adds_up(variable: Variable, writers: Sequence[Operation]) -> bool:
    """Tells whether what is written is all of the old value and more: Adagrad's sum."""
    (writer,) = writers[:1]
    if writer.type in ("AssignAdd", "AssignAddVariableOp"):
        return True
    # RMSProp and Adam multiply the old value by a decay before they add; Adagrad adds to it as it is.
    value = writer.inputs[1].op
    return value.type in SUMMING and any(_reads(tensor, variable) for tensor in value.inputs)


def _reads(tensor: Tensor, variable: Variable) -> bool:
    op = tensor.op
    while op.type in READING_VARIABLES and len(op.inputs):
        op = op.inputs[0].op
    return op is variable.op
