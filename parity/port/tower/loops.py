"""Raises while loops: counters, indexing by them, and the loop as one op with its body."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from parity.port.tower.ops import (
    COMPARISONS,
    CONST,
    LOOP,
    LOOP_MEMBERS,
    LOOP_NUMBER,
    LOOP_SLOT,
    LOOP_STATE,
    VARIABLE,
    Op,
    Tensor,
    Tower,
    in_order,
    ops_of,
)
from parity.port.tower.simplify import Rule, axes_swapped, number_of, simplify

INDEX, AS_TENSOR = "Index", "AsTensor"
PATTERN = "pattern"  # attribute of an INDEX: the text of each place, {} where it takes the next of what it is given
LOOP_AXIS = "loop_axis"  # attribute of a GATHER: along which axis the iterations are stacked
ARRAY, READ, WRITE, SCATTER, GATHER = (f"TensorArray{each}V3" for each in ("", "Read", "Write", "Scatter", "Gather"))
SUMS = ("Add", "AddV2")
COUNTED = (*SUMS, "Sub", "Mul", "FloorDiv", "FloorMod")  # what Python computes of whole numbers as TensorFlow does
COUNT_TAKING_KINDS = (INDEX, READ, WRITE, LOOP, LOOP_STATE, AS_TENSOR)
BODY, APPENDS = "body", "appends"  # attributes of a loop that is one op, of a write behind what was written before


@dataclass
class State:
    """A state variable of a loop.

    Attributes:
      slot: which of the loop's outputs it is.
      op: what an iteration begins with.
      start: what the first begins with.
      following: what an iteration leaves.
      counts: whether it is a whole number that grows by another one, which Python counts.
    """

    slot: int
    op: Op
    start: Tensor
    following: Tensor
    counts: bool


@dataclass
class Body:
    """What a loop computes.

    Attributes:
      states: that something needs, without the counter.
      ops: of an iteration, in order; those of the condition are not among them.
      counter: what is counted, None where iterations are not counted.
      first, step: of the counter.
      stops: numbers that the counter stays below.
      condition: whether there is another iteration, where they are not counted.
      tested: ops of the condition.
    """

    states: list[State]
    ops: list[Op]
    counter: Op | None
    first: int
    step: int
    stops: list[Tensor]
    condition: Tensor | None
    tested: list[Op]

    def all_ops(self) -> list[Op]:
        """Those of the condition and of an iteration."""
        return [*self.tested, *self.ops]

    def count(self) -> int | None:
        """Number of iterations, None where it is not known."""
        known = [number_of(each) for each in self.stops]
        if self.counter is None or not known or None in known:
            return None
        last = min(int(each) for each in known if each is not None)
        # Rounded up: 0, 3, 6 below 7 are three iterations.
        return max(0, -(-(last - self.first) // self.step))

    def writes(self, state: State) -> list[Op]:
        """What an iteration writes into an array, the first last; empty where the state is no array."""
        found: list[Op] = []
        tensor = state.following
        while tensor.kind == WRITE:
            found.append(tensor.op)
            tensor = tensor.op.inputs[-1]
        return found if tensor.op is state.op else []

    def appends(self, state: State) -> bool:
        """Whether the iterations fill an array one element after the other."""
        writes = self.writes(state)
        return (
            len(writes) == 1
            and state.start.kind == ARRAY
            and (self.first, self.step) == (0, 1)
            and writes[0].inputs[0].op is self.counter
        )


def raise_loops(tower: Tower) -> Tower:
    """Returns the tower with indices in the place of arrays that are read, and one counter where several count alike."""
    tower = _with_one_counter(simplify(tower, RULES))
    for op in tower.ops():
        if op.kind in (READ, WRITE, GATHER):  # the flow, which comes last, says which array it is
            del op.inputs[0]
    return _with_counts_as_tensors(tower)


# Indexing.


def _indexed_by_counter(op: Op) -> Tensor | None:
    """x[:, t]: begin and end are stacked of numbers and tensors."""
    # With constant bounds alone it was folded or is written as a plain slice; here one of them is a tensor.
    if op.kind != "StridedSlice" or any(op.attributes.get(f"{name}_mask") for name in ("ellipsis", "new_axis")):
        return None
    taken, begin, end, strides = op.inputs
    if begin.kind == CONST or strides.kind != CONST or set(np.ravel(strides.value).tolist()) != {1}:
        return None
    starts, stops = _stacked(begin), _stacked(end)
    if starts is None or stops is None:
        return None
    pattern, given = [], [taken]
    for place, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        masked = {name: int(op.attributes.get(f"{name}_mask", 0)) & 1 << place for name in ("begin", "end")}
        if int(op.attributes.get("shrink_axis_mask", 0)) & 1 << place:
            pattern.append(_place(start, given))
        else:
            bounds = ["" if masked["begin"] else _place(start, given), "" if masked["end"] else _place(stop, given)]
            pattern.append(":".join(bounds))
    return _index(op, given, pattern)


def _stacked(tensor: Tensor) -> list[Tensor | int] | None:
    """The numbers that a tensor of one axis holds."""
    if tensor.kind == CONST:
        return [int(each) for each in np.ravel(tensor.value)]
    if tensor.kind == "Pack":
        return [int(each.value) if each.kind == CONST else each for each in tensor.op.inputs]
    if tensor.kind in ("ExpandDims", "Reshape") and tensor.op.inputs[0].shape == () and tensor.shape == (1,):
        return [tensor.op.inputs[0]]
    return None


def _place(found: Tensor | int, given: list[Tensor]) -> str:
    if isinstance(found, int):
        return str(found)
    given.append(found)
    return "{}"


def _index(op: Op, given: list[Tensor], pattern: list[str]) -> Tensor:
    while len(pattern) > 1 and pattern[-1] == ":":
        pattern.pop()
    attributes = {PATTERN: tuple(pattern)}
    return Op(INDEX, op.name, given, attributes, list(op.shapes), list(op.dtypes), op.place).output()


def _gathered_one(op: Op) -> Tensor | None:
    """x[t] of one number."""
    if op.kind not in ("Gather", "GatherV2") or op.inputs[1].shape != () or op.inputs[1].kind == CONST:
        return None
    axis = number_of(op.inputs[2]) if len(op.inputs) > 2 else 0
    if axis is None or op.attributes.get("batch_dims") or op.inputs[0].kind == VARIABLE:
        return None
    return _index(op, op.inputs[:2], [":"] * (int(axis) % len(op.inputs[0].shape)) + ["{}"])


def _read_of_unstacked(op: Op) -> Tensor | None:
    """An element of an array that was filled from one tensor: that tensor's."""
    if op.kind != READ or op.inputs[2].kind != SCATTER:
        return None
    _, places, value, _ = op.inputs[2].op.inputs
    # TensorArray.unstack scatters to 0, 1, 2, ...: any other places are not the tensor's own rows.
    if places.kind != CONST or not np.array_equal(places.value, np.arange(value.shape[0])):
        return None
    return _index(op, [value, op.inputs[1]], ["{}"])


def _index_of_transposed(op: Op) -> Tensor | None:
    """What dynamic_rnn makes: time steps of a tensor whose first two axes were exchanged."""
    if op.kind != INDEX or op.attributes[PATTERN] != ("{}",) or not axes_swapped(op.inputs[0]):
        return None
    return _index(op, [op.inputs[0].op.inputs[0], op.inputs[1]], [":", "{}"])


def _stacked_on_second_axis(op: Op) -> Tensor | None:
    if not axes_swapped(op.output()) or op.inputs[0].kind != GATHER or op.inputs[0].op.attributes.get(LOOP_AXIS):
        return None
    gather = op.inputs[0].op
    attributes = {**gather.attributes, LOOP_AXIS: 1}
    return Op(GATHER, op.name, gather.inputs, attributes, list(op.shapes), list(op.dtypes), op.place).output()


RULES: tuple[Rule, ...] = (
    _indexed_by_counter,
    _gathered_one,
    _read_of_unstacked,
    _index_of_transposed,
    _stacked_on_second_axis,
)


# Counters.


def _parts(loop: Op) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """What a loop's state starts with, what an iteration leaves of it, and the condition."""
    number = len(loop.shapes)
    return loop.inputs[:number], loop.inputs[number:-1], loop.inputs[-1]


def _states(ops: Sequence[Op], loop: Op) -> dict[int, Op]:
    number = loop.attributes[LOOP_NUMBER]
    return {
        op.attributes[LOOP_SLOT]: op for op in ops if op.kind == LOOP_STATE and op.attributes[LOOP_NUMBER] == number
    }


def _counters(loop: Op, states: dict[int, Op]) -> dict[int, tuple[int, int]]:
    """First number and step of the states that count, by slot."""
    starts, following, _ = _parts(loop)
    found = {}
    for slot, op in states.items():
        first, after = starts[slot], following[slot]
        if first.kind != CONST or first.value.dtype.kind != "i" or first.value.ndim or after.kind not in SUMS:
            continue
        for own, step in (after.op.inputs, after.op.inputs[::-1]):
            if own.op is op and step.kind == CONST and int(step.value) > 0:
                found[slot] = int(first.value), int(step.value)
    return found


def _with_one_counter(tower: Tower) -> Tower:
    ops = tower.ops()
    made: dict[Op, Op] = {}
    for loop in ops:
        if loop.kind != LOOP:
            continue
        states, first = _states(ops, loop), dict[tuple[int, int], Op]()
        for slot, counted in sorted(_counters(loop, states).items()):
            # tf.while_loop counts itself beside the script's own counter and dynamic_rnn's time: the same number
            # three times.
            same = first.setdefault(counted, states[slot])
            if same is not states[slot]:
                made[states[slot]] = same
    return _replaced(tower, ops, made)


def _replaced(tower: Tower, ops: Sequence[Op], made: dict[Op, Op]) -> Tower:
    def now(tensor: Tensor) -> Tensor:
        return Tensor(made.get(tensor.op, tensor.op), tensor.number)

    for op in ops:
        op.inputs[:] = [now(each) for each in op.inputs]
    return tower.replaced(now)


def _with_counts_as_tensors(tower: Tower) -> Tower:
    """Counters are Python's numbers: what else takes one than an index gets a tensor of it."""
    ops = tower.ops()
    counts: set[Tensor] = set()
    for loop in [op for op in ops if op.kind == LOOP]:
        states = _states(ops, loop)
        for slot in _counters(loop, states):
            counts |= {loop.output(slot), states[slot].output()}
    for op in ops:
        known = [each in counts for each in op.inputs]
        numbers = [each.kind == CONST and not each.shape for each in op.inputs]
        if op.kind in COUNTED and any(known) and all(a or b for a, b in zip(known, numbers, strict=True)):
            counts.add(op.output())
    for op in ops:
        compared = op.kind in COMPARISONS and not all(each in counts or each.kind == CONST for each in op.inputs)
        if op.output() not in counts and op.kind not in COUNT_TAKING_KINDS and not compared:
            op.inputs[:] = [_as_tensor(each) if each in counts else each for each in op.inputs]
    return tower


def _as_tensor(tensor: Tensor) -> Tensor:
    op = tensor.op
    return Op(AS_TENSOR, op.name, [tensor], {}, [()], list(op.dtypes), op.place).output()


def _bounds(condition: Tensor, counters: dict[Op, tuple[int, int]]) -> tuple[Op, list[Tensor]] | None:
    """The counter that a condition is about and what it stays below; None where it is about anything else."""
    pending, found, counter = [condition], [], None
    while pending:
        each = pending.pop()
        if each.kind == AS_TENSOR:
            pending.append(each.op.inputs[0])
            continue
        # maximum_iterations and the script's own condition.
        if each.kind == "LogicalAnd":
            pending += each.op.inputs
            continue
        if each.kind == CONST and bool(each.value):
            continue
        if each.kind not in ("Less", "Greater"):
            return None
        own, bound = (_counted(one) for one in each.op.inputs[:: 1 if each.kind == "Less" else -1])
        if own.op not in counters or counter not in (None, own.op):
            return None
        counter = own.op
        found.append(bound)
    return None if counter is None else (counter, found)


def _counted(tensor: Tensor) -> Tensor:
    return tensor.op.inputs[0] if tensor.kind == AS_TENSOR else tensor


# The loop as one op.


Raise = Callable[[Op, "Body", Sequence[Op]], "dict[Tensor, Tensor] | None"]


def nest(wanted: Sequence[Tensor], raise_loop: Raise) -> list[Tensor]:
    """Returns some tensors behind loops that are one op each, with a `Body` and taking what it takes from outside.

    Args:
      wanted: what is computed.
      raise_loop: returns by tensor what stands in its place where it knows a loop, of its op, its body and its users.
    """
    wanted = list(wanted)
    for loop in [op for op in ops_of(wanted) if op.kind == LOOP]:
        ops = ops_of(wanted)
        body = _body(loop, ops, wanted)
        made = raise_loop(loop, body, [op for op in ops if any(each.op is loop for each in op.inputs)])
        if made is not None:
            for op in ops:
                op.inputs[:] = [made.get(each, each) for each in op.inputs]
            wanted = [made.get(each, each) for each in wanted]
            continue
        inside = {*body.all_ops(), *(state.op for state in body.states), *([body.counter] if body.counter else [])}
        loop.inputs[:] = dict.fromkeys(_from_outside(body, inside))
        for write in (body.writes(state)[0] for state in body.states if body.appends(state)):
            write.attributes = {**write.attributes, APPENDS: True}
        loop.attributes = {BODY: body, LOOP_MEMBERS: loop.attributes[LOOP_MEMBERS]}
    return wanted


def _from_outside(body: Body, inside: set[Op]) -> Iterator[Tensor]:
    for each in body.states:  # of a new array its length: the loop makes a list of its own
        yield each.start.op.inputs[0] if each.start.kind == ARRAY else each.start
    yield from body.stops
    for op in body.all_ops():
        yield from (each for each in op.inputs if each.op not in inside)
    ends = [each.following for each in body.states] + ([body.condition] if body.condition else [])
    yield from (each for each in ends if each.op not in inside)


def _body(loop: Op, ops: Sequence[Op], wanted: Sequence[Tensor]) -> Body:
    starts, following, condition = _parts(loop)
    states = _states(ops, loop)
    needed = {each.number for op in ops for each in op.inputs if each.op is loop}
    needed |= {each.number for each in wanted if each.op is loop}
    for slot in needed - {*states}:  # what an iteration leaves, and the next does not read
        start = starts[slot]
        states[slot] = Op(LOOP_STATE, loop.name, [start], {}, [start.shape], [start.dtype], loop.place)
    of_each = _of_each_iteration(loop, states, [*following, condition])
    counters = {states[slot]: counted for slot, counted in _counters(loop, states).items()}
    bounds = _bounds(condition, counters)
    counted_out = bounds is not None and any(states[slot] is bounds[0] for slot in needed)
    if counted_out or (bounds is not None and any(each.op in of_each for each in bounds[1])):
        bounds = None
    counter = bounds[0] if bounds else None
    tested = [] if bounds else _within([condition], of_each)
    live = _live(states, following, needed, tested)
    kept = [
        State(slot, states[slot], starts[slot], following[slot], states[slot] in counters)
        for slot in sorted(live)
        if states[slot] is not counter
    ]
    own = _within([each.following for each in kept], of_each)
    own = [op for op in own if op not in set(tested)]
    first, step = counters[counter] if counter else (0, 1)
    stops = bounds[1] if bounds else []
    return Body(kept, own, counter, first, step, stops, None if bounds else condition, tested)


def _of_each_iteration(loop: Op, states: dict[int, Op], ends: Sequence[Tensor]) -> set[Op]:
    """The ops that depend on the loop's state, or draw anew in each iteration; what else stands in it is computed once."""
    found = {*states.values()}
    members = loop.attributes[LOOP_MEMBERS]
    for op in ops_of(ends):
        draw = op.attributes.get("draw", op)
        draws = draw.name in members and draw.kind.startswith(DRAWN_KINDS)
        draws = draws or (op.kind == LOOP and op.attributes[LOOP_MEMBERS] <= members)  # a loop inside it
        if draws or any(each.op in found for each in op.inputs):
            found.add(op)
    return found


DRAWN_KINDS = ("Random", "TruncatedNormal", "Multinomial", "StatelessRandom")


def _within(ends: Sequence[Tensor], of_each: set[Op]) -> list[Op]:
    """The ops of an iteration that some tensors need, in the order of the script."""
    return in_order(op for op in ops_of(ends) if op in of_each and op.kind != LOOP_STATE)


def _live(states: dict[int, Op], following: Sequence[Tensor], needed: set[int], tested: Sequence[Op]) -> set[int]:
    """The state variables that something behind the loop needs, or the condition, or what these need of the others."""
    slots = {op: slot for slot, op in states.items()}
    pending = [*needed, *(slots[each.op] for op in tested for each in op.inputs if each.op in slots)]
    found = set(pending)
    while pending:
        for op in ops_of([following[pending.pop()]]):
            slot = slots.get(op)
            if slot is not None and slot not in found:
                found.add(slot)
                pending.append(slot)
    return found
