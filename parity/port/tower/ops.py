"""A tower: its ops from what is fed to its loss, with their tensors, shapes and constants, in order."""

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from parity.trace.arrays import Array

CONST, VARIABLE, FEED = "Const", "Variable", "Feed"
SETTING = "Setting"  # a number that a script keeps in a variable, the same in every recorded step
# A while loop takes what its state is at first, what it is after an iteration, and whether there is another one.
# What an iteration begins with is an op of its own, so that a tower with loops has no circles.
LOOP, LOOP_STATE = "Loop", "LoopState"
LOOP_NUMBER, LOOP_SLOT, LOOP_MEMBERS = "number", "slot", "members"  # attributes of both, of a state, of a loop
COMPARISONS = ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual")
# Lengths of the recorded steps are known almost everywhere: this one stands where an op was not run, as in a branch
# not taken.
UNKNOWN = -1  # a length
OPEN = "open"  # attribute of a shape and of a constant: where its numbers are lengths that the script leaves open


# Compared by identity: two ops of one kind and name may stand in a tower while a rule has replaced one of them. Without a
# text of its fields: its inputs are ops again, and each would stand there as often as paths lead to it.
@dataclass(eq=False, repr=False)
class Op:
    """An op of a tower.

    Attributes:
      kind: its type in TensorFlow's words, or `CONST`, `VARIABLE`, `FEED`, or what several ops were raised to.
      name: in the graph; of a variable and a feed the name in the trace.
      inputs: the tensors that it takes.
      attributes: as `attributes_of` gives them; of a constant its "value".
      shapes: of its outputs in the recorded steps; () also where nothing is known.
      dtypes: of its outputs, numpy's names.
      place: among the ops of the graph, in the order in which the script made them.
    """

    kind: str
    name: str
    inputs: "list[Tensor]"
    attributes: dict[str, Any]
    shapes: list[tuple[int, ...]]
    dtypes: list[str]
    place: int = 0

    def output(self, index: int = 0) -> "Tensor":
        """Returns one of its outputs."""
        return Tensor(self, index)


class Tensor(NamedTuple):
    """An output of an op."""

    op: Op
    number: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """In the recorded steps."""
        # An op of several outputs may know the shape of the first alone: what is raised to a layer gives one.
        return self.op.shapes[min(self.number, len(self.op.shapes) - 1)]

    @property
    def dtype(self) -> str:
        """Numpy's name."""
        return self.op.dtypes[min(self.number, len(self.op.dtypes) - 1)]

    @property
    def kind(self) -> str:
        """Of its op."""
        return self.op.kind

    @property
    def value(self) -> Array:
        """Of a constant."""
        return np.asarray(self.op.attributes["value"])

    @property
    def is_number(self) -> bool:
        """Whether it is a constant that has one value throughout."""
        # An array of equal numbers counts: tf.ones_like and tf.fill are folded to one, and broadcast as their number
        # does.
        return self.kind == CONST and self.value.size > 0 and bool((self.value == self.value.flat[0]).all())


class Write(NamedTuple):
    """What a step writes into a moving statistic.

    Fields:
      variable: its name in the trace.
      kind: of the op that writes: "Assign", "AssignSub", ...
      value: what it is given.
      after: what the variable then holds, computed of what it held before; None of another tower's writes, and where that
        is not known.
      is_statistic: whether the variable is one, and not what one is computed of.
    """

    variable: str
    kind: str
    value: Tensor
    after: Tensor | None = None
    is_statistic: bool = True


@dataclass
class Tower:
    """One tower of one optimizer's part.

    Attributes:
      loss: what is differentiated.
      feeds: by name, the ops of what is fed.
      variables: by name in the trace, the ops of the variables that it reads.
      writes: what is written into moving statistics, by any tower.
      numbers: by name, what is fed the same in every recorded step and is a constant for that.
      unmoved: names of moving statistics that no recorded step has moved.
    """

    loss: Tensor
    feeds: dict[str, Op] = field(default_factory=dict)
    variables: dict[str, Op] = field(default_factory=dict)
    writes: list[Write] = field(default_factory=list)
    numbers: dict[str, Array] = field(default_factory=dict)
    unmoved: frozenset[str] = frozenset()

    def ops(self) -> list[Op]:
        """The ops that the loss and the moving statistics need, each after those that it takes from."""
        return ops_of([self.loss, *(tensor for each in self.writes for tensor in (each.value, each.after) if tensor)])

    def replaced(self, now: Callable[[Tensor], Tensor]) -> "Tower":
        """Returns the tower with other tensors for its own."""
        writes = [
            each._replace(value=now(each.value), after=now(each.after) if each.after else None) for each in self.writes
        ]
        return replace(self, loss=now(self.loss), writes=writes)


def ops_of(wanted: Sequence[Tensor], stop: frozenset[Op] = frozenset()) -> list[Op]:
    """Returns the ops that some tensors need, each after those that it takes from; those in `stop` end a path."""
    found: list[Op] = []
    seen: set[Op] = set()
    # A stack of our own: a tower of some thousand ops in a row is deeper than Python recurses.
    pending = [(each.op, False) for each in reversed(wanted)]
    while pending:
        op, done = pending.pop()
        if done:
            found.append(op)
        elif op not in seen:
            seen.add(op)
            pending.append((op, True))
            if op not in stop:
                pending += [(each.op, False) for each in reversed(op.inputs)]
    return found


def users_of(ops: Sequence[Op]) -> dict[Op, list[Op]]:
    """Returns by op those that take from it, as often as they do."""
    found: dict[Op, list[Op]] = {op: [] for op in ops}
    for op in ops:
        for each in op.inputs:
            found.setdefault(each.op, []).append(op)
    return found


def in_order(ops: Iterable[Op]) -> list[Op]:
    """Returns ops in the order in which the script made them, as far as each comes after those that it takes from."""
    chosen = list(dict.fromkeys(ops))
    numbers = {op: number for number, op in enumerate(chosen)}
    # Not sorted by place alone: a rule may put an op early in the graph behind one that the script made later.
    waiting = {op: len({each.op for each in op.inputs if each.op in numbers}) for op in chosen}
    users = users_of(chosen)
    ready = [(op.place, numbers[op]) for op in chosen if not waiting[op]]
    heapq.heapify(ready)
    found: list[Op] = []
    while ready:
        op = chosen[heapq.heappop(ready)[1]]
        found.append(op)
        for user in dict.fromkeys(users[op]):
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, (user.place, numbers[user]))
    return found
