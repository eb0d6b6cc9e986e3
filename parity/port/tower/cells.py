"""Raises one step of an LSTM or a GRU to a cell, and a loop that does nothing else to dynamic_rnn."""

from collections.abc import Iterator, Sequence

import numpy as np

from parity.port.tower.layers import DYNAMIC_RNN, GRU_CELL, LAYERS, LINEAR, LSTM_CELL
from parity.port.tower.loops import GATHER, INDEX, LOOP_AXIS, PATTERN, SUMS, Body, State
from parity.port.tower.ops import CONST, Op, Tensor, Tower
from parity.port.tower.simplify import axes_swapped, number_of

LENGTHS, STARTS = "lengths", "starts"  # attributes of a DYNAMIC_RNN: whether it takes lengths, and a first state
CELL = "cell"
Match = tuple[Op, dict[Tensor, Tensor]]  # a cell, and by tensor what it gives in its place


def raise_cells(tower: Tower) -> Tower:
    """Returns the tower with a cell in the place of each step of an LSTM or a GRU.

    A cell takes the input and the state; it gives the output and, of an LSTM, the cell's own state behind it.
    """
    ops = tower.ops()
    matches = [found for op in ops if (found := _lstm(op) or _gru(op)) is not None]
    read = _readers(ops)
    whole = [(cell, given) for cell, given in matches if _alone(cell, matches, read)]
    made = {old: new for _, given in whole for old, new in given.items()}

    def now(tensor: Tensor) -> Tensor:
        return made.get(tensor, tensor)

    for op in [*ops, *(cell for cell, _ in whole)]:
        op.inputs[:] = [now(each) for each in op.inputs]
    return tower.replaced(now)


def _readers(ops: Sequence[Op]) -> dict[str, int]:
    """By name of a weight, how many layers have it."""
    found: dict[str, int] = {}
    for op in ops:
        if op.kind in LAYERS and op.attributes.get("weight"):
            found[op.attributes["weight"]] = found.get(op.attributes["weight"], 0) + 1
    return found


def _alone(cell: Op, matches: Sequence[Match], read: dict[str, int]) -> bool:
    """Whether nothing but cells has the weights of a cell: a weight belongs to one layer."""
    weights = [name for name in cell.attributes if name.endswith("weight")]
    # A weight that a script reads beside the cell too, to penalise it, is no layer's and does not count here.
    return all(
        read[cell.attributes[name]] == sum(each.attributes.get(name) == cell.attributes[name] for each, _ in matches)
        for name in weights
    )


def _orders(op: Op) -> Iterator[tuple[Tensor, Tensor]]:
    first, second = op.inputs
    yield first, second
    yield second, first


def _pair(tensor: Tensor, *kinds: str) -> tuple[Tensor, Tensor] | None:
    """What two ops of two kinds take whose product a tensor is."""
    if tensor.kind == "Mul":
        for first, second in _orders(tensor.op):
            # Order matters: sigmoid(i) * tanh(j) and tanh(c) * sigmoid(o) are told apart by nothing else.
            if (first.kind, second.kind) == kinds:
                return first.op.inputs[0], second.op.inputs[0]
    return None


def _joined(linear: Tensor) -> tuple[Tensor, Tensor] | None:
    """The input and the state that a dense layer takes side by side."""
    # TensorFlow's cells multiply [x, h] with one kernel of [in + units, 4 * units], and always have a bias.
    if linear.kind != LINEAR or linear.op.attributes.get("turned") or not linear.op.attributes.get("bias"):
        return None
    both = linear.op.inputs[0]
    if both.kind != "ConcatV2" or len(both.op.inputs) != 3 or number_of(both.op.inputs[2]) not in (1, -1):
        return None
    return both.op.inputs[0], both.op.inputs[1]


def _gate(tensor: Tensor, number: int, of: int) -> Tensor | None:
    """What was split into gates, of which a tensor is one."""
    if tensor.kind != "Split" or tensor.number != number or int(tensor.op.attributes.get("num_split", 0)) != of:
        return None
    axis, taken = tensor.op.inputs
    return taken if number_of(axis) in (1, -1) and len(taken.shape) == 2 else None


def _lstm(op: Op) -> Match | None:
    """``c' = sigmoid(f + forget_bias) * c + sigmoid(i) * tanh(j)``, ``h' = tanh(c') * sigmoid(o)``."""
    ends = _pair(op.output(), "Tanh", "Sigmoid")
    if ends is None or ends[0].kind not in SUMS:
        return None
    new, gate = ends
    # The order of TensorFlow's gates is i, j, f, o (input, candidate, forget, output); torch's LSTMCell has i, f, g, o.
    gates = _gate(gate, 3, 4)
    joined = _joined(gates) if gates is not None else None
    if gates is None or joined is None:
        return None
    for kept, added in _orders(new.op):
        candidate = _pair(added, "Sigmoid", "Tanh")
        remembered = _remembered(kept, gates)
        if candidate is None or remembered is None:
            continue
        if _gate(candidate[0], 0, 4) != gates or _gate(candidate[1], 1, 4) != gates:
            continue
        old, bias = remembered
        known = gates.op.attributes
        attributes = {"weight": known["weight"], "bias": known["bias"], "forget_bias": bias}
        x, state = joined
        cell = Op(LSTM_CELL, op.name, [x, old, state], attributes, [op.shapes[0], new.shape], [op.dtypes[0]], op.place)
        return cell, {op.output(): cell.output(0), new: cell.output(1)}
    return None


def _remembered(tensor: Tensor, gates: Tensor) -> tuple[Tensor, float] | None:
    """The old cell and the forget bias, of the product of the cell and its gate."""
    if tensor.kind != "Mul":
        return None
    for old, gate in _orders(tensor.op):
        if gate.kind != "Sigmoid":
            continue
        taken = gate.op.inputs[0]
        # forget_bias of 0: TensorFlow leaves the addition out.
        if _gate(taken, 2, 4) == gates:
            return old, 0.0
        if taken.kind in SUMS:
            for raw, bias in _orders(taken.op):
                number = number_of(bias)
                if _gate(raw, 2, 4) == gates and number is not None:
                    return old, number
    return None


def _gru(op: Op) -> Match | None:
    """``h' = u * h + (1 - u) * tanh(W [x, r * h])``."""
    if op.kind not in SUMS:
        return None
    for kept, added in _orders(op):
        if kept.kind != "Mul" or added.kind != "Mul":
            continue
        for gate, state in _orders(kept.op):
            for rest, candidate in _orders(added.op):
                found = _gru_of(op, gate, state, rest, candidate)
                if found is not None:
                    return found
    return None


def _gru_of(op: Op, gate: Tensor, state: Tensor, rest: Tensor, candidate: Tensor) -> Match | None:
    value = _gate(gate, 1, 2)
    if value is None or value.kind != "Sigmoid" or candidate.kind != "Tanh" or rest.kind != "Sub":
        return None
    # 1 - u, written out.
    if number_of(rest.op.inputs[0]) != 1 or rest.op.inputs[1] != gate:
        return None
    gates, inner = value.op.inputs[0], candidate.op.inputs[0]
    joined, reset = _joined(gates), _joined(inner)
    # TensorFlow resets the state before the product, torch.nn.GRUCell behind it: `like_tf.GRUCell` has the former.
    if joined is None or reset is None or joined[1] != state or reset[0] != joined[0] or reset[1].kind != "Mul":
        return None
    if not any(_gate(one, 0, 2) == value and other == state for one, other in _orders(reset[1].op)):
        return None
    attributes = {
        f"{name}_{own}": layer.op.attributes[own]
        for name, layer in (("gates", gates), ("candidate", inner))
        for own in ("weight", "bias")
    }
    cell = Op(GRU_CELL, op.name, [joined[0], state], attributes, list(op.shapes), list(op.dtypes), op.place)
    return cell, {op.output(): cell.output()}


# dynamic_rnn.


def raise_dynamic_rnn(loop: Op, body: Body, users: Sequence[Op]) -> dict[Tensor, Tensor] | None:
    """Returns by tensor what a dynamic_rnn gives in its place, for a loop that only runs a cell; None for any other.

    Steps beyond all lengths, which the script leaves out, leave the state and add zeros: running them is the same.

    Args:
      loop: the op.
      body: of it.
      users: what takes from it.
    """
    cell = next((op for op in body.ops if op.kind in (LSTM_CELL, GRU_CELL)), None)
    # raw_rnn and loops that begin elsewhere stay loops in Python.
    if cell is None or body.counter is None or (body.first, body.step) != (0, 1):
        return None
    step = cell.inputs[0]
    if step.kind != INDEX or step.op.attributes[PATTERN] not in ((":", "{}"), ("{}",)):
        return None
    sequence, place = step.op.inputs
    axis = len(step.op.attributes[PATTERN]) - 1
    gates = _Gates(body.counter, {cell, step.op})
    states = [_state_of(body, taken, cell.output(number), gates) for taken, number in _carried(cell)]
    arrays = [state for state in body.states if state not in states]
    known = all(state is not None for state in states) and place.op is body.counter and len(sequence.shape) == 3
    known = known and all(_is_output(body, state, cell, gates) for state in arrays)
    # Every op of an iteration is one that dynamic_rnn makes: a loop that does anything else besides is none.
    if not known or gates.seen != {*body.ops} or len(arrays) > 1 or len(gates.lengths) > 1:
        return None
    lengths = next(iter(gates.lengths), None)
    if not all(_runs_through(stop, sequence.shape[axis], lengths) for stop in body.stops):
        return None
    carried = [state for state in states if state is not None]
    rnn = _dynamic_rnn(loop, cell, _batch_first(sequence, axis), [each.start for each in carried], lengths)
    found = {Tensor(loop, state.slot): rnn.output(number + 1) for number, state in enumerate(carried)}
    for user in users if arrays else ():
        if Tensor(loop, arrays[0].slot) in user.inputs:
            # Some of the outputs, or in another order: the array itself would be needed.
            if user.kind != GATHER or not _is_range(user.inputs[0], sequence.shape[axis]):
                return None
            outputs = rnn.output()
            found[user.output()] = outputs if user.attributes.get(LOOP_AXIS) else _swapped(outputs)
    return found


class _Gates:
    """What keeps the state where a sequence has ended: a choice by ``t >= lengths``.

    Args:
      counter: of the loop.
      seen: ops that are known already; grows.
    """

    def __init__(self, counter: Op, seen: set[Op]) -> None:
        self.counter, self.seen = counter, seen
        self.lengths: set[Tensor] = set()
        self._gated: set[bool] = set()

    def behind(self, tensor: Tensor, new: Tensor) -> Tensor | None:
        """The old value that is kept; what is chosen itself where nothing is kept, None where it is another choice."""
        if tensor == new:
            self._gated.add(False)
            return new if self._gated == {False} else None
        # Where a sequence has ended its old state is taken, and zeros in place of its output.
        if tensor.kind not in ("Select", "SelectV2") or tensor.op.inputs[2] != new:
            return None
        ended, old, _ = tensor.op.inputs
        if ended.kind != "GreaterEqual" or ended.op.inputs[0].op is not self.counter:
            return None
        self._gated.add(True)
        self.lengths.add(ended.op.inputs[1])
        self.seen |= {tensor.op, ended.op}
        # Select takes whole rows by a vector; SelectV2 would broadcast it along the units.
        return old if self._gated == {True} and (tensor.kind == "Select" or len(tensor.shape) == 1) else None


def _carried(cell: Op) -> list[tuple[Tensor, int]]:
    """What a cell takes of its state, in its order, and which of its outputs goes on."""
    if cell.kind == GRU_CELL:
        return [(cell.inputs[1], 0)]
    # LSTMStateTuple(c, h): the output h is the second of the state, and the first of what the cell gives.
    return [(cell.inputs[1], 1), (cell.inputs[2], 0)]


def _state_of(body: Body, taken: Tensor, new: Tensor, gates: _Gates) -> State | None:
    state = next((each for each in body.states if each.op is taken.op), None)
    if state is None:
        return None
    return state if gates.behind(state.following, new) in (new, state.op.output()) else None


def _is_output(body: Body, state: State, cell: Op, gates: _Gates) -> bool:
    """Whether a state variable is the array of a cell's outputs, with zeros where a sequence has ended."""
    if not body.appends(state):
        return False
    write = body.writes(state)[0]
    gates.seen.add(write)
    old = gates.behind(write.inputs[1], cell.output())
    return old == cell.output() or (old is not None and number_of(old) == 0)


def _runs_through(stop: Tensor, length: int, lengths: Tensor | None) -> bool:
    """Whether a loop makes all steps, or those up to the largest length and at least one."""
    if number_of(stop) == length:
        return True
    bounds = {number_of(each): each for each in stop.op.inputs} if stop.kind == "Minimum" else {}
    if lengths is None or length not in bounds or None not in bounds or bounds[None].kind != "Maximum":
        return False
    # min(time, max(1, max(lengths))): dynamic_rnn stops where the longest sequence does, and makes at least one step.
    inner = {number_of(each): each for each in bounds[None].op.inputs}
    largest = inner.get(None)
    return 1 in inner and largest is not None and largest.kind == "Max" and largest.op.inputs[0] == lengths


def _dynamic_rnn(loop: Op, cell: Op, sequence: Tensor, starts: Sequence[Tensor], lengths: Tensor | None) -> Op:
    batch, steps, _ = sequence.shape
    zero = all(number_of(each) == 0 for each in starts)
    inputs = [sequence, *([lengths] if lengths else []), *([] if zero else starts)]
    attributes = {CELL: cell, LENGTHS: lengths is not None, STARTS: not zero}
    shapes = [(batch, steps, cell.shapes[0][-1]), *(each.shape for each in starts)]
    return Op(DYNAMIC_RNN, loop.name, inputs, attributes, shapes, list(cell.dtypes), loop.place)


def _batch_first(sequence: Tensor, axis: int) -> Tensor:
    if axis == 1:
        return sequence
    return sequence.op.inputs[0] if axes_swapped(sequence) else _swapped(sequence)


def _swapped(tensor: Tensor) -> Tensor:
    first, second, *rest = tensor.shape
    order = Op(CONST, tensor.op.name, [], {"value": np.array([1, 0, 2])}, [(3,)], ["int32"], tensor.op.place)
    shapes = [(second, first, *rest)]
    return Op(
        "Transpose", tensor.op.name, [tensor, order.output()], {}, shapes, [tensor.dtype], tensor.op.place
    ).output()


def _is_range(places: Tensor, length: int) -> bool:
    return places.kind == CONST and np.array_equal(places.value, np.arange(length))
