"""How loops are written: `for t in range(4):` with the state in variables and arrays in lists."""

from collections.abc import Iterator

import numpy as np

from parity.port.source.code import ATOM, Code, call
from parity.port.source.form import INDENT
from parity.port.source.writer import Writer, states, writes
from parity.port.tower.cells import CELL, LENGTHS, STARTS
from parity.port.tower.layers import DYNAMIC_RNN, GRU_CELL, LSTM_CELL, settings
from parity.port.tower.loops import (
    APPENDS,
    ARRAY,
    AS_TENSOR,
    BODY,
    GATHER,
    INDEX,
    LOOP_AXIS,
    PATTERN,
    READ,
    WRITE,
    Body,
    State,
)
from parity.port.tower.ops import CONST, LOOP, VARIABLE, Op, Tensor
from parity.port.tower.simplify import number_of


@states(LOOP)
def _loop(writer: Writer, op: Op) -> None:
    body: Body = op.attributes[BODY]
    # What was drawn in front of the loop has to be drawn before its iterations draw.
    writer.assign_draws()
    writer.assign(op.inputs)
    lists = [state for state in body.states if is_list(state)]
    others = [state for state in body.states if state not in lists]
    ends = [each.following for each in others] + ([body.condition] if body.condition else [])
    writer.count(body.all_ops(), [each for each in ends if each.kind not in (CONST, VARIABLE)])
    writer.count((), [*body.stops, *(each.start for each in others)])
    named = {state.slot: writer.new_name(_wished(writer, state)) for state in body.states}
    for state in lists:
        _begin_list(writer, body, state, named[state.slot])
    _begin(writer, op, others, named)
    stops = ", ".join(dict.fromkeys(_whole(writer, each) for each in body.stops))
    # The body is written as statements of its own, and set in behind the head.
    outer, writer.statements = writer.statements, []
    if body.counter is not None:
        writer.call_it(body.counter.output(), counter := writer.new_name("t"))
        header = f"for {counter} in range({_range(body, stops)}):"
    else:
        header = _tested(writer, body)
    writer.write_all(body.ops)
    _end(writer, others, named)
    outer += [header, *(f"{INDENT}{line}" for line in writer.statements)]
    writer.statements = outer
    for each in op.inputs:
        writer.give_up(each)
    for state in body.states:
        writer.call_it(Tensor(op, state.slot), named[state.slot])


def is_list(state: State) -> bool:
    """Whether a state variable is an array that is written."""
    return state.following.kind == WRITE or state.start.kind == ARRAY


def _wished(writer: Writer, state: State) -> str:
    if is_list(state):
        return writer.suggested(state.start.op) or "outputs"
    otherwise = "ch"[1 - state.following.number] if state.following.kind == LSTM_CELL else "state"
    return writer.suggested(state.following.op) or otherwise


def _range(body: Body, stops: str) -> str:
    # maximum_iterations and the length of the sequence: the loop ends at the smaller one.
    stop = f"min({stops})" if ", " in stops else stops
    # Counted by Python: a counter of the loop that nothing else takes is no tensor.
    if body.step != 1:
        return f"{body.first}, {stop}, {body.step}"
    return stop if body.first == 0 else f"{body.first}, {stop}"


def _whole(writer: Writer, tensor: Tensor) -> str:
    number = number_of(tensor)
    return f"int({writer.code(tensor).text})" if number is None else str(int(number))


def _begin_list(writer: Writer, body: Body, state: State, name: str) -> None:
    if state.start.kind != ARRAY:
        writer.statements.append(f"{name} = {writer.code(state.start).text}")
    elif body.appends(state):
        writer.statements.append(f"{name} = []")
    else:
        writer.statements.append(f"{name} = [None] * {_whole(writer, state.start.op.inputs[0])}")
    writer.call_it(state.op.output(), name)


def _begin(writer: Writer, loop: Op, others: list[State], named: dict[int, str]) -> None:
    starts: dict[str, list[str]] = {}
    for state in others:
        # States that begin alike share a line: h = c = x.new_zeros(...).
        starts.setdefault(_start(writer, loop, state), []).append(named[state.slot])
        writer.wishes[state.following] = named[state.slot]
        writer.call_it(state.op.output(), named[state.slot])
    for text, own in starts.items():
        writer.statements.append(" = ".join([*own, text]))


def _start(writer: Writer, loop: Op, state: State) -> str:
    """What a state is at first; zeros for as many examples as something else has that the loop takes."""
    start = state.start
    if start.kind == CONST and not start.shape and not state.counts:
        like = writer.parameters.example(writer.owner)
        dtype = f"dtype={like}.dtype, " if start.dtype.startswith("float") else ""
        return f"torch.tensor({writer.code(start).text}, {dtype}device={like}.device)"
    if number_of(start) != 0 or not start.shape or not start.dtype.startswith("float"):
        return writer.code(start).text
    # The batch's length is read off something that has it, so that the port takes batches of any size.
    rest = ", ".join(map(str, start.shape[1:]))
    for each in loop.inputs:
        if each in writer.names and each.shape[:1] == start.shape[:1] and each.dtype.startswith("float"):
            name = writer.names[each]
            return f"{name}.new_zeros(len({name}){rest and ', '}{rest})"
    like = writer.parameters.example(writer.owner)
    return f"{like}.new_zeros({', '.join(map(str, start.shape))})"


def _tested(writer: Writer, body: Body) -> str:
    """The head of a loop that goes on while something holds; what that takes is computed inside it."""
    writer.write_all(body.tested)
    condition = writer.code(body.condition) if body.condition else Code("True")
    if not writer.statements:
        return f"while {condition.text}:"
    # A condition that takes statements has no place in the head of a while.
    writer.statements += [f"if not {condition.within(ATOM)}:", f"{INDENT}break"]
    return "while True:"


def _end(writer: Writer, others: list[State], named: dict[int, str]) -> None:
    """What an iteration leaves gets the names of the state, all at once where it has others."""
    writer.assign(each.following for each in others)
    left = [(named[each.slot], writer.code(each.following).text) for each in others]
    # All at once: h, c = f(h, c), g(h, c) must not see the new h.
    changed = [(name, text) for name, text in left if name != text]
    if changed:
        writer.statements.append(f"{', '.join(each for each, _ in changed)} = {', '.join(each for _, each in changed)}")


@states(ARRAY)
def _array(writer: Writer, op: Op) -> None:
    """An array: the loop that fills it makes a list of it."""


@states(WRITE)
def _write(writer: Writer, op: Op) -> None:
    place, value, array = op.inputs
    if array not in writer.names:
        name = writer.new_name(writer.suggested(array.op) or "outputs")
        writer.statements.append(f"{name} = [None] * {_whole(writer, array.op.inputs[0])}")
        writer.call_it(array, name)
    name, element = writer.code(array).text, writer.code(value).text
    writer.call_it(op.output(), name)
    if op.attributes.get(APPENDS):
        writer.statements.append(f"{name}.append({element})")
    else:
        writer.statements.append(f"{name}[{writer.code(place).text}] = {element}")


@writes(READ)
def _read(writer: Writer, op: Op) -> Code:
    place, array = op.inputs
    return Code(f"{writer.code(array).text}[{writer.code(place).text}]")


@writes(GATHER)
def _gathered(writer: Writer, op: Op) -> Code | None:
    places, array = op.inputs
    if places.kind != CONST or not np.array_equal(places.value, np.arange(places.value.size)):
        return None
    name = writer.code(array).text
    for line in _filled_up(array, name, places.value.size):
        writer.statements.append(line)
    return Code(f"torch.stack({name}, {int(op.attributes.get(LOOP_AXIS, 0))})")


def _filled_up(array: Tensor, name: str, length: int) -> Iterator[str]:
    """An array holds zeros where nothing was written."""
    body: Body | None = array.op.attributes.get(BODY)
    state = next((each for each in body.states if each.slot == array.number), None) if body else None
    if body is not None and state is not None and body.appends(state) and body.count() != length:
        yield f"{name} += [torch.zeros_like({name}[0])] * ({length} - len({name}))"


@states(LSTM_CELL)
def _lstm_cell(writer: Writer, op: Op) -> None:
    layer = cell_layer(writer, op)
    x, *state = (writer.code(each).text for each in op.inputs)
    begins = x.isidentifier() and all(number_of(each) == 0 for each in op.inputs[1:])
    step = f"{layer}({x}, {f'{layer}.zero_state(len({x}))' if begins else '({}, {})'.format(*state)})"
    output = _given_name(writer, op.output(), "h")
    new = _given_name(writer, op.output(1), "c")
    writer.statements.append(f"{output}, {'_' if new == '_' else f'({new}, _)'} = {step}")


def _given_name(writer: Writer, tensor: Tensor, otherwise: str) -> str:
    """A name for one of several things that a call gives, "_" where nobody takes it."""
    if not writer.is_left(tensor):
        return "_"
    name = writer.free_name(writer.wished(tensor, otherwise))
    writer.call_it(tensor, name)
    return name


@writes(GRU_CELL)
def _gru_cell(writer: Writer, op: Op) -> Code:
    x, state = (writer.code(each).text for each in op.inputs)
    return Code(f"{cell_layer(writer, op)}({x}, {state})[0]")


@states(DYNAMIC_RNN)
def _dynamic_rnn(writer: Writer, op: Op) -> None:
    cell, (sequence, *others) = op.attributes[CELL], [writer.code(each) for each in op.inputs]
    lengths = others.pop(0) if op.attributes[LENGTHS] else None
    start = None
    if op.attributes[STARTS]:
        start = others[0] if len(others) == 1 else Code(f"({', '.join(each.text for each in others)})")
    arguments: list[Code | str] = [cell_layer(writer, cell), sequence, *([lengths] if lengths else [])]
    made = call("like_tf.dynamic_rnn", *arguments, initial_state=start.text if start else None)
    outputs = _given_name(writer, op.output(), "outputs")
    wishes = ["state"] if cell.kind == GRU_CELL else ["c", "h"]
    states = [_given_name(writer, op.output(number + 1), wish) for number, wish in enumerate(wishes)]
    final = states[0] if len(states) == 1 else f"({', '.join(states)})"
    writer.statements.append(f"{outputs}, {'_' if set(states) == {'_'} else final} = {made.text}")


def cell_layer(writer: Writer, op: Op) -> str:
    """Returns the layer of a cell, which the module gets where it has none yet."""
    known, parameters = op.attributes, writer.parameters
    gates = known["weight" if op.kind == LSTM_CELL else "gates_weight"]
    units = op.shapes[0][-1]
    bias = known.get("forget_bias", 1.0)
    size = parameters.shapes[gates][0] - units
    made = call(f"like_tf.{op.kind}", str(size), str(units), forget_bias=None if bias == 1 else repr(bias))
    mapped = {
        str(known[name]): (name, "transpose" if name.endswith("weight") else "identity")
        for name in known
        if name.endswith(("weight", "bias")) and name != "forget_bias"
    }
    scope = parameters.scope_of(gates)
    scope = scope.removesuffix("/gates") if op.kind == GRU_CELL else scope
    layer = parameters.layer(settings(op), scope, made.text, mapped, writer.frames(op))
    return f"{writer.owner}.{layer.attribute}"


@writes(INDEX)
def _indexed(writer: Writer, op: Op) -> Code:
    taken, *given = op.inputs
    texts = iter([writer.code(each).text for each in given])
    places = ", ".join(op.attributes[PATTERN])
    parts = places.split("{}")
    index = parts[0] + "".join(next(texts) + part for part in parts[1:])
    return Code(f"{writer.code(taken).within(ATOM)}[{index}]")


@writes(AS_TENSOR)
def _as_tensor(writer: Writer, op: Op) -> Code:
    like = writer.parameters.example(writer.owner)
    return Code(f"torch.tensor({writer.code(op.inputs[0]).text}, device={like}.device)")
