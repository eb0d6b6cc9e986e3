"""Tells the layout of a kernel by the ops that take it: over which of its axes it is summed, and what map it takes or makes.

Each side's own pass says so. No number of the other side is compared, so what a bug changes before or behind the kernel does
not matter.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from parity.locate.downstream import readers
from parity.locate.matching import Pass
from parity.mapping import Draft
from parity.mapping.guesses import Guess
from parity.mapping.transforms import parse_transform
from parity.trace import ForwardOp, Operand
from parity.trace.arrays import Array

PRODUCTS = frozenset(["matmul", "__matmul__", "mm", "bmm", "addmm", "baddbmm", "batchmatmul", "batchmatmulv2"])
REVERSED = "__rmatmul__"
ADDING = frozenset(["addmm", "baddbmm"])  # whose first argument is added to the product of the other two
WITHOUT_BIAS = " without bias"
_FLATTENED = re.compile(r"(un)?flatten_hwc\(([\d, ]+)\)")
EINSUM = "einsum"


def in_layout_of_graph(
    draft: Draft, passes: tuple[Pass, Pass], values: tuple[Mapping[str, Array], Mapping[str, Array]]
) -> Draft:
    """Returns the draft without the layouts under which other axes of a kernel would be summed than its ops sum.

    And without those of a flattened map where the reference's layer neither takes nor makes such a map.

    Args:
      draft: with guesses of layouts.
      passes: of the reference and of the candidate, from `values`.
      values: by name the reference's variables and the candidate's parameters, as those passes read them.
    """
    draft = with_maps_of_graph(draft, passes[0].ops)
    reference, candidate = (_Summed(*side) for side in zip(passes, values, strict=True))

    def sums_alike(guess: Guess, option: int) -> bool:
        unit, text = guess.options[option]
        # Of a kernel that several variables make up, no single op says which axes are summed.
        if len(unit.parts) != 1 or unit.rows is not None:
            return True
        one, other = reference(guess.variable.name), candidate(unit.names[0])
        return one is None or other is None or _same_groups(parse_transform(text).forward(one, linear=True)[0], other)

    return draft.among({guess.variable.name: _kept(guess, sums_alike) for guess in draft.guesses})


def with_maps_of_graph(draft: Draft, ops: Sequence[ForwardOp]) -> Draft:
    """Returns the draft without the layouts of a flattened map where the reference's layer neither takes nor makes one.

    Args:
      draft: with guesses of layouts.
      ops: of the reference's pass.
    """
    maps = _MapsAround(ops)

    def is_there(guess: Guess, option: int) -> bool:
        return maps.allow(guess.variable.name, guess.options[option][1])

    return draft.among({guess.variable.name: _kept(guess, is_there) for guess in draft.guesses})


def summed(passed: Pass, name: str, value: Array) -> Array | None:
    """Returns by element of a weight the number of the position in the sum that it belongs to, None where none is known.

    Args:
      passed: one side's pass.
      name: of the weight on that side.
      value: of the weight, as that pass reads it.
    """
    found = [
        labels
        for number, op in enumerate(passed.ops)
        if name in op.weights
        for place, operand in enumerate(op.operands)
        for labels in _labels(passed, (number, place), name, value, _output_axes(op, operand))
    ]
    # Ops that share a kernel have to agree, else the graph does not say.
    same = all(_same_groups(found[0], other) for other in found[1:])
    return found[0] if found and same else None


class _Summed:
    # Remembers what `summed` returns, for every weight is asked for once an option.
    def __init__(self, passed: Pass, values: Mapping[str, Array]) -> None:
        self._passed, self._values = passed, values
        self._known: dict[str, Array | None] = {}

    def __call__(self, name: str) -> Array | None:
        if name not in self._known:
            value = self._values.get(name)
            several = value is not None and value.ndim > 1
            self._known[name] = summed(self._passed, name, np.asarray(value)) if several else None
        return self._known[name]


class _MapsAround:
    """The maps that a layer's numbers come from, or become, by ops that keep how many there are.

    Args:
      ops: the reference's.
    """

    def __init__(self, ops: Sequence[ForwardOp]) -> None:
        self._ops, self._after = ops, readers(ops)

    def allow(self, name: str, text: str) -> bool:
        """Whether a layer may lie in a layout; one that is no flattened map's may."""
        found = _FLATTENED.search(text)
        reading = [number for number, op in enumerate(self._ops) if name in op.weights]
        if found is None or not reading:
            return True
        shape = tuple(int(size) for size in found.group(2).split(","))
        taken = [each for number in reading for each in self._ops[number].inputs]
        begun = self._makes(self._scaled(reading, math.prod(shape))) if found.group(1) else self._before(taken)
        return any(self._is_map(number, shape) for number in begun)

    def _is_map(self, number: int, shape: tuple[int, ...]) -> bool:
        """Whether an op gives such a map, or what it gives is reshaped to one for another op."""
        operands = (each for reader in self._after[number] for each in self._ops[reader].operands if not each.name)
        taken = (each.shape for each in operands if math.prod(each.shape) == self._size(number))
        shapes = [self._ops[number].shape, *taken]
        # Of so many channels and places, be they rows and columns of any number, or a sequence; other axes may be in front.
        return any(
            own[-1] == shape[-1] and math.prod(shape[:-1]) == math.prod(own[begin:-1])
            for own in shapes
            for begin in range(1, len(own) - 1)
        )

    def _scaled(self, numbers: Sequence[int], size: int) -> list[int]:
        """The ops of so many units each that take what is made of a layer's own vector, as a norm's scale and shift."""
        vectors = self._along([number for number in numbers if self._size(number) == size], self._after.__getitem__)
        scaled = [each for number in vectors for each in self._after[number] if self._ops[each].shape[-1:] == [size]]
        return [*numbers, *scaled]

    def _makes(self, numbers: Sequence[int]) -> set[int]:
        """Ops that are made of others' outputs number by number, and what they are added to or multiplied by."""
        return self._before(sorted(self._along(numbers, self._after.__getitem__)))

    def _before(self, numbers: Sequence[int]) -> set[int]:
        """Ops whose outputs others are made of number by number, these others included."""
        return self._along(numbers, lambda number: self._ops[number].inputs)

    def _along(self, numbers: Sequence[int], following: Callable[[int], Sequence[int]]) -> set[int]:
        pending, found = [*numbers], set[int]()
        while pending:
            number = pending.pop()
            if number not in found:
                found.add(number)
                pending += [each for each in following(number) if self._size(each) == self._size(number)]
        return found

    def _size(self, number: int) -> int:
        return math.prod(self._ops[number].shape)


def _kept(guess: Guess, fits: Any) -> list[int]:
    """The places of the options that fit; of a unit of which none does all, for then something else is not understood."""
    fitting = [place for place in range(len(guess.options)) if fits(guess, place)]
    # Only among layouts of one unit: which unit it is, other rules decide.
    units = {guess.options[place][0] for place in fitting}
    return [place for place, (unit, _) in enumerate(guess.options) if place in fitting or unit not in units]


def _labels(passed: Pass, where: tuple[int, int], name: str, value: Array, outputs: set[int] | None) -> list[Array]:
    """Positions in the sum, in the weight's own layout, of an operand of which these axes are those of the output."""
    operand = passed.ops[where[0]].operands[where[1]]
    shape = [*operand.shape]
    if outputs is None or math.prod(shape) != value.size:
        return []
    # Axes that stay get size 1, so that all elements of one place of the sum get one label.
    sizes = [1 if axis in outputs else size for axis, size in enumerate(shape)]
    labels = np.broadcast_to(np.arange(math.prod(sizes)).reshape(sizes), shape)
    # The weight itself; else what was reshaped or transposed on its way is known by its numbers.
    if operand.name == name and shape == [*value.shape]:
        return [labels]
    taken = passed.operand(*where)
    if taken is None or taken.size != value.size:
        return []
    found = []
    # As it is or transposed: what else a graph does to a kernel before a product is left open.
    for turned in (value, np.swapaxes(value, -1, -2)):
        if np.array_equal(turned.ravel(), np.asarray(taken).ravel()):
            own = labels.reshape(turned.shape)
            found.append(own if turned is value else np.swapaxes(own, -1, -2))
    return found[:1] if len(found) == 1 or (found and _same_groups(*found)) else []


def _output_axes(op: ForwardOp, operand: Operand) -> set[int] | None:
    """The axes of an operand that are not summed over; None where it is no kernel of a product."""
    kind, axes = op.kind.lower().removesuffix(WITHOUT_BIAS), len(operand.shape)
    if axes < 2:
        return None
    # torch: weight is (out, in), and the first axis stays.
    if kind == "linear":
        return {0} if operand.place in ("1", "weight") else None
    if kind == EINSUM:
        return _kept_by_einsum(op, operand)
    if kind.startswith("conv") and operand.place in ("1", "weight"):
        return _outputs_of_convolution(op, operand)
    place = _side_of_product(kind, operand.place)
    if place is None:
        return None
    turned = bool(
        op.attributes.get(("transpose_a", "transpose_b")[place]) or op.attributes.get(("adj_x", "adj_y")[place])
    )
    # Left operands are summed over their last axis, right ones over the last but one; transposing exchanges the two.
    summed_over = axes - 1 if (place == 0) != turned else axes - 2
    return {*range(axes)} - {summed_over}


def _side_of_product(kind: str, place: str) -> int | None:
    """Whether an operand is the left (0) or the right (1) one of a product of matrices; None where it is neither."""
    if kind == REVERSED:
        return {"0": 1, "1": 0}.get(place)
    if kind not in PRODUCTS:
        return None
    if kind in ADDING:
        return {"1": 0, "mat1": 0, "batch1": 0, "2": 1, "mat2": 1, "batch2": 1}.get(place)
    return {"0": 0, "input": 0, "1": 1, "other": 1, "mat2": 1}.get(place)


def _outputs_of_convolution(op: ForwardOp, operand: Operand) -> set[int] | None:
    """The axis of the channels that come out; of a kernel over one place, for that may be a dense layer's too."""
    shape, last = operand.shape, len(operand.shape) - 1
    # TensorFlow: (places, in, out).
    if op.kind in ("Conv2D", "Conv3D"):
        return {last} if math.prod(shape[:-2]) == 1 else None
    # torch: (out, in, places). Of several groups the second axis is a part of the inputs only.
    one_group = op.attributes.get("groups", op.attributes.get("6", 1)) == 1
    plain = op.kind.removesuffix(WITHOUT_BIAS) in ("conv1d", "conv2d", "conv3d")
    return {0} if plain and one_group and math.prod(shape[2:]) == 1 else None


def _kept_by_einsum(op: ForwardOp, operand: Operand) -> set[int] | None:
    equation = op.attributes.get("equation", op.attributes.get("0"))
    # "..." and sums without "->" name no axes that can be counted.
    if not isinstance(equation, str) or "->" not in equation or "." in equation:
        return None
    terms, result = equation.replace(" ", "").split("->")
    listed = terms.split(",")
    of_graph = op.kind == "Einsum"
    number = int(operand.place.rpartition(".")[2]) - (0 if of_graph or "." in operand.place else 1)
    if not 0 <= number < len(listed) or len(listed[number]) != len(operand.shape):
        return None
    return {axis for axis, letter in enumerate(listed[number]) if letter in result}


def _same_groups(one: Array, other: Array) -> bool:
    """Whether two arrays of labels put the same elements together, whatever the labels are."""
    if one.shape != other.shape:
        return False
    # Labels as numbers from 0, (elements,): a pair of them is a group of both at once.
    first = np.unique(one.ravel(), return_inverse=True)[1].astype(np.int64)
    second = np.unique(other.ravel(), return_inverse=True)[1].astype(np.int64)
    pairs = np.unique(first * (second.max(initial=0) + 1) + second)
    # As many pairs as groups on either side: each group of the one is one group of the other.
    return len(pairs) == int(first.max(initial=-1)) + 1 == int(second.max(initial=-1)) + 1
