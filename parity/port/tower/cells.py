"""Raises one step of an LSTM or a GRU to a cell, and a loop that does nothing else to dynamic_rnn."""

from collections.abc import Iterator, Sequence

from parity.port.tower.layers import LAYERS, LINEAR
from parity.port.tower.ops import Op, Tensor, Tower
from parity.port.tower.simplify import number_of

LSTM_CELL, GRU_CELL = "LSTMCell", "GRUCell"
CELLS = (LSTM_CELL, GRU_CELL)
ADDED = ("Add", "AddV2")
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
            if (first.kind, second.kind) == kinds:
                return first.op.inputs[0], second.op.inputs[0]
    return None


def _joined(linear: Tensor) -> tuple[Tensor, Tensor] | None:
    """The input and the state that a dense layer takes side by side."""
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
    if ends is None or ends[0].kind not in ADDED:
        return None
    new, gate = ends
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
        if _gate(taken, 2, 4) == gates:
            return old, 0.0
        if taken.kind in ADDED:
            for raw, bias in _orders(taken.op):
                number = number_of(bias)
                if _gate(raw, 2, 4) == gates and number is not None:
                    return old, number
    return None


def _gru(op: Op) -> Match | None:
    """``h' = u * h + (1 - u) * tanh(W [x, r * h])``."""
    if op.kind not in ADDED:
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
    if number_of(rest.op.inputs[0]) != 1 or rest.op.inputs[1] != gate:
        return None
    gates, inner = value.op.inputs[0], candidate.op.inputs[0]
    joined, reset = _joined(gates), _joined(inner)
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
