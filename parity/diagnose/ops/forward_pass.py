"""Computes part of a forward pass again, from what was recorded of it, with the output of one op changed."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from parity.diagnose.agreement import same_in_order
from parity.diagnose.ops.rearranging import REARRANGING, places_of
from parity.diagnose.ops.table import computed, plain
from parity.diagnose.ops.windows import work
from parity.locate.downstream import active, readers
from parity.locate.matching import Pass
from parity.trace import ForwardOp
from parity.trace.arrays import Array

MOST_AXES_PERMUTED = 4  # 24 orders of axes, each tried on every op
# By whole numbers: times, shapes, rows.
SIZING = frozenset([
    "tile", "repeat", "broadcastto", "expand", "fill", "pad", "padv2", "mirrorpad", "resizebilinear",
    "resizenearestneighbor",
])  # fmt: skip
COMPARING = frozenset([
    "greater", "gt", "greaterequal", "ge", "less", "lt", "lessequal", "le", "equal", "eq", "notequal", "ne",
])  # fmt: skip
# Of torch, whose operands have an order: data, then kernel or bias or both, a mask, or values.
ORDERED_OPERANDS = ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose", "masked scores", "scaled_dot")


class Taken(NamedTuple):
    """A tensor that an op takes.

    Fields:
      place: of the argument, as in an `Operand`.
      value: the array as it was.
      source: number of the op whose output it is, None where it is a constant or a weight.
      order: of that output's axes, before they are joined or cut to the shape of `value`; None where it cannot be followed.
      name: of the variable, input or constant, "" where it is none.
    """

    place: str
    value: Array
    source: int | None
    order: tuple[int, ...] | None
    name: str


class RecomputedPass:
    """A forward pass whose ops can be computed again.

    Args:
      passed: as it was recorded.
    """

    def __init__(self, passed: Pass) -> None:
        self.passed = passed
        self.ops = passed.ops
        self.work = 0  # numbers computed, a product of a convolution counted as part of one
        # By number of an op, each found once: hundreds of changes ask for the same ones.
        self._takes: dict[int, list[Taken] | None] = {}
        self._own: dict[int, bool] = {}
        self._picked: dict[int, Array | None] = {}
        self._truths: dict[int, Array | None] = {}
        self._taken: dict[int, Array | None] = {}

    @cached_property
    def readers(self) -> list[list[int]]:
        """By op the numbers of the ops that take its output."""
        return readers(self.ops)

    @cached_property
    def of_data(self) -> frozenset[int]:
        """Numbers of the ops that no weight goes into."""
        return frozenset(range(len(self.ops))) - active(self.ops)

    def takes(self, number: int) -> list[Taken] | None:
        """Returns what an op takes, None where part of that is not known."""
        if number not in self._takes:
            self._takes[number] = self._find_taken(number)
        return self._takes[number]

    def computes(self, number: int) -> bool:
        """Whether the op, computed again from what it took, gives what it gave: then it can be computed from anything."""
        if number not in self._own:
            self._own[number] = self._repeats(number)
        return self._own[number]

    def given(self, number: int, values: Sequence[Any], attributes: Mapping[str, Any] | None = None) -> Array | None:
        """Returns what an op gives for other values of what it takes, in the order of `takes`; None where that fails.

        Args:
          number: of the op.
          values: arrays.
          attributes: in place of its own.
        """
        op, taken = self.ops[number], self.takes(number)
        if taken is None or not self.computes(number):
            return None
        if plain(op.kind) in SIZING and any(
            self._is_size(each, value) for each, value in zip(taken, values, strict=True)
        ):
            return None
        self.work += work(plain(op.kind), [each.value.shape for each in taken], math.prod(op.shape))
        if self._picked.get(number) is not None:
            data = next(at for at, each in enumerate(taken) if each.source is not None or not each.name)
            # An op that only rearranges is known by where its numbers went, whatever its arguments mean.
            flat, places = np.asarray(values[data]).reshape(-1), self._picked[number]
            return flat[places] if places is not None and flat.size == taken[data].value.size else None
        return self._computed(op, taken, values, op.attributes if attributes is None else attributes)

    @staticmethod
    def _is_size(taken: Taken, value: Any) -> bool:
        """Whether another number of times, or shape, is given than there was: that is no change of what is computed."""
        return taken.value.dtype.kind in "iu" and not np.array_equal(taken.value, value)

    def after(self, changes: Mapping[int, Array], most: int) -> Iterator[tuple[int, Array]]:
        """Yields number and output of each op that comes of changed outputs, in order, as far as it can be computed.

        Args:
          changes: by number of an op what it gives now.
          most: how many ops are computed.
        """
        changed = dict(changes)
        pending = {reader for number in changes for reader in self.readers[number]} - changes.keys()
        unknown: set[int] = set()
        while pending and most:
            # Ops are numbered in the order in which they ran: the least of those that wait has all its inputs known.
            each = min(pending)
            pending.remove(each)
            # A changed output stays as it is given, though it comes of another change too.
            pending.update(reader for reader in self.readers[each] if reader not in changes)
            # What cannot be computed makes all behind it unknown, rather than computed of a mixture.
            made = None if unknown & set(self.ops[each].inputs) else self._again(each, changed)
            if made is None:
                unknown.add(each)
                continue
            changed[each] = made
            most -= 1
            yield each, made

    def output(self, number: int) -> Array | None:
        """Returns what an op gave; of whole numbers, which a pass does not keep, what others took, or it gives again.

        These are labels that are cut out of a sequence, and comparisons.
        """
        value = self.passed.value(number)
        if value is None:
            if number not in self._taken:
                self._taken[number] = self._as_others_took(number)
            value = self._taken[number]
        if value is None and plain(self.ops[number].kind) in COMPARING:
            if number not in self._truths:
                taken = self.takes(number)
                values = [each.value for each in taken or ()]
                op = self.ops[number]
                self._truths[number] = self._computed(op, taken, values, op.attributes) if taken else None
            return self._truths[number]
        return value

    def _as_others_took(self, number: int) -> Array | None:
        """What ops took that is the output of one as it gave it, None where nothing is known of it."""
        op = self.ops[number]
        for reader in self.readers[number]:
            for at, operand in enumerate(self.ops[reader].operands):
                as_given = operand.laid_out is None and [*operand.shape] == [*op.shape]
                value = self.passed.operand(reader, at) if operand.op == number and as_given else None
                if value is not None:
                    return value
        return None

    def as_taken(self, changed: Array, taken: Taken) -> Array | None:
        """Returns a changed output as an op takes it, None where that cannot be said.

        Args:
          changed: what the op gives of which it takes the output.
          taken: what it took.
        """
        own = self.output(taken.source) if taken.source is not None else None
        return _laid_out(changed, own, taken)

    def _again(self, number: int, changed: Mapping[int, Array]) -> Array | None:
        taken = self.takes(number)
        if taken is None:
            return None
        values = []
        for each in taken:
            if each.source not in changed:
                values.append(each.value)
                continue
            # An operand holds its source's numbers in the layout in which the op took them: the change is laid out
            # alike.
            moved = self.as_taken(changed[each.source], each)  # type: ignore[index]
            if moved is None:
                return None
            values.append(moved)
        return self.given(number, values)

    def _repeats(self, number: int) -> bool:
        taken, output = self.takes(number), self.output(number)
        if taken is None or output is None:
            return False
        op = self.ops[number]
        made = self._computed(op, taken, [each.value for each in taken], op.attributes)
        if made is not None and same_in_order(output, made):
            return True
        data = [each for each in taken if each.source is not None or not each.name]
        if plain(op.kind) in REARRANGING and data:
            self._picked[number] = places_of(data[0].value, output)
        return self._picked.get(number) is not None

    @staticmethod
    def _computed(
        op: ForwardOp, taken: Sequence[Taken], values: Sequence[Any], attributes: Mapping[str, Any]
    ) -> Array | None:
        # Arguments that were numbers are attributes by their place; "0.1" is the second of a list in the first place.
        placed: dict[str, Any] = {place: value for place, value in attributes.items() if place.isdigit()}
        if op.kind.startswith(ORDERED_OPERANDS):
            return computed(op.kind, values, attributes)
        for each, value in zip(taken, values, strict=True):
            head, _, at = each.place.partition(".")
            if at:
                placed.setdefault(head, []).append(value)
            else:
                placed[head] = value
        numbered = {int(place): value for place, value in placed.items() if place.isdigit()}
        arguments = [numbered.get(at) for at in range(max(numbered, default=-1) + 1)]
        named = {place: value for place, value in placed.items() if not place.isdigit()}
        return computed(op.kind, arguments, {**attributes, **named})

    def _find_taken(self, number: int) -> list[Taken] | None:
        op, found = self.ops[number], list[Taken]()
        for at, operand in enumerate(op.operands):
            value = self.passed.operand(number, at)
            if value is None and operand.op is not None:
                made = self.output(operand.op)
                value = made if made is not None and list(made.shape) == list(operand.shape) else None
            if value is None:
                return None
            # An operand that names neither an op nor a variable may be any of the inputs, in another layout: its
            # numbers tell.
            sources = [operand.op] if operand.op is not None else [] if operand.name else op.inputs
            source, order = next(self._sources(sources, value), (operand.op, None))
            found.append(Taken(operand.place, value, source, order, operand.name))
        return found

    def _sources(self, numbers: Sequence[int], value: Array) -> Iterator[tuple[int, tuple[int, ...]]]:
        for number in numbers:
            output = self.output(number)
            order = _order(output, value) if output is not None and output.size == value.size else None
            if order is not None:
                yield number, order


def _order(output: Array, value: Array) -> tuple[int, ...] | None:
    """The order of an output's axes in which it holds the numbers of a value, None where there is none."""
    for order in permutations(range(output.ndim)) if output.ndim <= MOST_AXES_PERMUTED else [tuple(range(output.ndim))]:
        if np.array_equal(output.transpose(order).reshape(value.shape), value, equal_nan=value.dtype.kind == "f"):
            return order
    return None


def _laid_out(changed: Array, own: Array | None, taken: Taken) -> Array | None:
    """A changed output as an op takes it; where its shape is another one, as it is."""
    if own is None or taken.order is None:
        return None
    if changed.shape == own.shape:
        return changed.transpose(taken.order).reshape(taken.value.shape)
    if changed.size == 1:
        return np.broadcast_to(changed.reshape(()), taken.value.shape)
    return changed if own.shape == taken.value.shape else None
