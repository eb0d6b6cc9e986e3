"""Single changes of an op of a forward pass: left out, another function, constant, operand, axis, order or mask."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations, permutations
from typing import Any, NamedTuple

import numpy as np

from parity.causes.arranged import PICKING
from parity.causes.functions import FUNCTIONS, log_softmax, softmax
from parity.causes.op_table import BINARY, REDUCTIONS, UNARY, axes_of, computed, plain
from parity.causes.rerun import Rerun, Taken
from parity.judge.numbers import Array
from parity.locate.behind import upstream
from parity.trace import ForwardOp

OTHER = "other_operation"
TINY = 1e-2  # below which what is added before a root, a logarithm or a division is an epsilon
LEAST = 1e-4  # of a factor: with a smaller one what is multiplied by it is gone
MOST_JOINED = 4
MOST_PLACES = 64
MOST_LEFT_OUT = 3  # ops in a row
SLOPES = (0.01, 0.1, 0.2, 0.3)
ACTIVATIONS = frozenset(
    ["relu", "relu6", "sigmoid", "tanh", "softplus", "elu", "silu", "gelu", "leaky_relu", "hard", "selu", "softmax"]
)
# Functions that are tried where an op of one of these kinds is near.
NEEDING = {"GELU": {"gelu", "erf"}, "GELU (tanh)": {"gelu", "tanh", "pow"}, "hard sigmoid": {"hardsigmoid", "relu6"}}
ROOTS = frozenset(["rsqrt", "sqrt", "div", "log", "rdiv", "reciprocal", "maximum", "pow"])
LAYOUTS = frozenset(
    ["reshape", "view", "transpose", "permute", "expanddims", "squeeze", "unsqueeze", "identity", "cast", "flatten"]
)
FILLING = frozenset(["select", "selectv2", "where"])
ADDING = LAYOUTS | frozenset(["add", "addn", "sub", "mul", "div", "neg", "mean", "sum", "rdiv", "rsub"])
JOINING = frozenset(["concat", "concatv2", "cat", "pack", "stack"])
COMPARED = {
    "greater": "greaterequal",
    "greaterequal": "greater",
    "less": "lessequal",
    "lessequal": "less",
    "gt": "ge",
    "ge": "gt",
    "lt": "le",
    "le": "lt",
}


class Edit(NamedTuple):
    """One change of an op.

    Fields:
      number: of the op.
      value: what it gives then.
      name: of the cause.
      as_is, changed: what the pass does without it and with it, as in "takes the mean over axis 1".
      dropped: what it leaves out: a kind of op, "mask" or "epsilon"; "" where it leaves nothing out.
      follows: whether it does something to what the op gives.
    """

    number: int
    value: Array
    name: str
    as_is: str
    changed: str
    dropped: str = ""
    follows: bool = False


class Near(NamedTuple):
    """What there is near the place where two passes part.

    Fields:
      kinds: of the other side's ops.
      numbers: constants, of the other side and such as people take.
      arrays: constants of the other side and inputs of this one, each with its name, "" of a constant.
      choices: numbers of ops of this side whose output may be taken in place of another.
      right: numbers of ops of this side whose output the other side has too.
      of_loss: whether it is behind all layers.
    """

    kinds: Collection[str]
    numbers: Sequence[float]
    arrays: Sequence[tuple[str, Array]]
    choices: Sequence[int]
    right: Collection[int]
    of_loss: bool


class _At(NamedTuple):
    """An op that is changed."""

    run: Rerun
    number: int
    kind: str
    taken: Sequence[Taken]
    output: Array
    near: Near

    def edit(self, value: Array | None, name: str, as_is: str, changed: str, dropped: str = "") -> Iterator[Edit]:
        """Yields the change to a value, none where it could not be computed or changes nothing."""
        if value is not None and not (value.shape == self.output.shape and np.array_equal(value, self.output)):
            yield Edit(self.number, value, name, as_is, changed, dropped)

    def instead(self, place: int, value: Any) -> Array | None:
        """What the op gives for another value in one place."""
        return self.run.given(self.number, [value if at == place else each.value for at, each in enumerate(self.taken)])

    def by(self, of_loss: str, otherwise: str) -> str:
        """The cause's name behind all layers, and elsewhere."""
        return of_loss if self.near.of_loss else otherwise


def plain_edits(run: Rerun, number: int, near: Near) -> Iterator[Edit]:
    """Yields the changes of what one op computes.

    Args:
      run: the pass.
      number: of the op.
      near: what there is near there.
    """
    at = _at(run, number, near)
    if at is None:
        return
    yield from _picked(at) if at.kind in PICKING | LAYOUTS else _left_out(at)
    if run.computes(number):
        for changes in (_functions, _exchanged, _reduced, _axes, _constants, _attributes, _joined, _masks, _turned):
            yield from changes(at)


def operand_edits(run: Rerun, number: int, near: Near) -> Iterator[Edit]:
    """Yields the changes of what one op takes, and of what is done to what it gives.

    Args:
      run: the pass.
      number: of the op.
      near: what there is near there.
    """
    at = _at(run, number, near)
    if at is not None and run.computes(number):
        yield from _operands(at)
        yield from _arrays(at)
    yield from followed(run, number, near)


def _at(run: Rerun, number: int, near: Near) -> _At | None:
    output, taken = run.output(number), run.takes(number)
    return _At(run, number, plain(run.ops[number].kind), taken, output, near) if output is not None and taken else None


def followed(run: Rerun, number: int, near: Near) -> Iterator[Edit]:
    """Yields the changes that do something to an op's output: a function of it, a factor.

    Args:
      run: the pass.
      number: of the op.
      near: what there is near there.
    """
    yield from (edit._replace(follows=True) for edit in _followed(run, number, near))


def _followed(run: Rerun, number: int, near: Near) -> Iterator[Edit]:
    output, kind = run.output(number), plain(run.ops[number].kind)
    if output is None or output.dtype.kind != "f":
        return
    at, made = _At(run, number, kind, [], output, near), np.asarray(output, np.float64)
    as_is = f"goes on with {kind} as it is"
    for name, value in _functions_of(made, near.kinds):
        cause = "activation_function" if name.split(" ")[0] in ACTIVATIONS else OTHER
        yield from at.edit(value, cause, as_is, f"takes {name} of it")
    if made.size > 1 and made.min() >= 0.0 and made.max() <= 1.0:
        gate = "gate_halves" if kind in ("sigmoid", "softmax") else OTHER
        yield from at.edit(1.0 - made, gate, as_is, "takes 1 less it")
    for number_ in near.numbers:
        if LEAST <= abs(number_) <= 1.0 / LEAST:
            name = "loss_term" if _adds_up(run, number) else "extra_scale"
            yield from at.edit(number_ * made, name, as_is, f"multiplies it by {number_:.9g}")


def joins(op: ForwardOp) -> bool:
    """Whether an op joins what it takes: its numbers are the same in whatever order."""
    return plain(op.kind) in JOINING


def _left_out(at: _At) -> Iterator[Edit]:
    for each in at.taken:
        value = each.value
        alike = value.size == at.output.size and value.dtype.kind == at.output.dtype.kind
        if not alike or not value.size or (each.source is None and each.name):
            continue
        if not at.run.computes(at.number) and each.source not in at.near.right:
            continue  # what nothing is known of, of what may be anything
        beside = [other for other in at.taken if other is not each and other.value.size > 1]
        constants = [float(o.value.reshape(())) for o in at.taken if o.value.size == 1 and o.value.dtype.kind == "f"]
        constants += [
            float(v) for k, v in at.run.ops[at.number].attributes.items() if k == "1" and isinstance(v, float)
        ]
        tiny = any(_of_constant(at, each) == "epsilon" for each in constants)
        dropped = "mask" if any(_is_mask(other.value) for other in beside) else "epsilon" if tiny else at.kind
        what = (
            f"what {origin(at.run, beside[0])} gives" if len(beside) == 1 and beside[0].source is not None else at.kind
        )
        words = f"has {at.kind} there", f"leaves {what} out"
        name = "epsilon" if dropped == "epsilon" else "op_left_out"
        if at.kind == "div" and any(_counts(at.run, other) for other in beside):
            name = at.by("loss_reduction", "reduction")  # a sum for a mean
        yield from at.edit(value.reshape(at.output.shape), name, *words, dropped)


def _counts(run: Rerun, taken: Taken) -> bool:
    """Whether what is taken is a number of things: a sum, kept from being 0 where it may be."""
    number = taken.source
    while number is not None and plain(run.ops[number].kind) in ("maximum", "add", "clamp", *LAYOUTS):
        number = next(iter(run.ops[number].inputs), None)
    return number is not None and plain(run.ops[number].kind) == "sum"


def _is_mask(values: Array) -> bool:
    return values.size > 1 and len(np.unique(values.reshape(-1)[: 1 << 16])) == 2


def _picked(at: _At) -> Iterator[Edit]:
    """One place of an axis is picked: another one is, or their mean."""
    x = at.taken[0].value
    if x.dtype.kind != "f":
        return
    for axis in range(1, x.ndim):
        count = x.shape[axis]
        if count < 2 or x.size != at.output.size * count:
            continue
        own = next(
            (n for n in range(count) if np.array_equal(np.take(x, n, axis).reshape(at.output.shape), at.output)), None
        )
        if own is None:
            continue
        as_is = f"takes place {own} of axis {axis}"
        for other in [-1, *range(min(count, MOST_PLACES))]:
            words = f"takes {'the last place' if other < 0 else f'place {other}'} of axis {axis}"
            yield from at.edit(np.take(x, other, axis).reshape(at.output.shape), "pooling", as_is, words)
        for name in ("mean", "max", "sum"):
            made = np.asarray(REDUCTIONS[name](x, axis=axis)).reshape(at.output.shape)
            yield from at.edit(made, "pooling", as_is, f"takes the {name} over axis {axis}")


def _functions(at: _At) -> Iterator[Edit]:
    data = [each for each in at.taken if each.source is not None or not each.name]
    if (at.kind not in UNARY and at.kind not in ACTIVATIONS) or len(data) != 1:
        return
    for name, made in _functions_of(np.asarray(data[0].value, np.float64), at.near.kinds):
        both = {at.kind, name.split(" ")[0]} <= ACTIVATIONS
        if name == at.kind or (name == "softmax" and not both):
            continue  # softmax adds up to 1, so that what is divided by its sum is left as it is
        cause = "activation_function" if both else at.by("loss_function", OTHER)
        yield from at.edit(made, cause, f"computes {at.kind}", f"computes {name}")


def _functions_of(x: Array, near: Collection[str]) -> Iterator[tuple[str, Array]]:
    """Yields the functions of one array that people take, and those that are near, where all they give is finite."""
    with np.errstate(all="ignore"):
        for name, function in UNARY.items():
            made = np.asarray(function(x)) if name in ACTIVATIONS or name in near else x
            if made is not x and np.isfinite(made).all():
                yield name, made
        for slope in SLOPES:
            yield f"leaky_relu of slope {slope:g}", np.where(x > 0, x, slope * x)
        if x.ndim:
            yield "softmax", softmax(x, -1)
        for name, needed in NEEDING.items():
            if needed & set(near):
                yield name.lower(), FUNCTIONS[name](x)


def _exchanged(at: _At) -> Iterator[Edit]:
    if at.kind in ("sub", "div", "pow", "rsub", "rdiv") and len(at.taken) == 2:
        made = at.run.given(at.number, [each.value for each in at.taken[::-1]])
        words = f"has the operands of {at.kind} in order", f"exchanges the operands of {at.kind}"
        yield from at.edit(made, OTHER, *words)


def _reduced(at: _At) -> Iterator[Edit]:
    x = np.asarray(at.taken[0].value)
    if at.kind not in REDUCTIONS or x.dtype.kind not in "fiu" or not x.ndim:
        return
    own = _own_axes(at, x.ndim)
    keeps, cause = at.output.ndim == x.ndim, at.by("loss_reduction", "reduction")
    as_is = f"takes the {at.kind} over {_named(own, x.ndim)}"
    over = [axes for count in range(1, x.ndim + 1) for axes in combinations(range(x.ndim), count)]
    for axes in sorted(over, key=lambda each: each != own):
        for name, function in REDUCTIONS.items():
            if (axes, name) != (own, at.kind):
                made = np.asarray(function(x, axis=axes, keepdims=keeps), np.float64)
                yield from at.edit(made, cause, as_is, f"takes the {name} over {_named(axes, x.ndim)}")
    if len(own) == 1:
        for place, words in ((0, "first"), (-1, "last")):
            made = np.take(x, [place], own[0])
            yield from at.edit(made.reshape(at.output.shape), cause, as_is, f"takes the {words} of axis {own[0]}")


def _own_axes(at: _At, ndim: int) -> tuple[int, ...]:
    attributes = at.run.ops[at.number].attributes
    placed = [each.value for each in at.taken]
    placed += [attributes["1"]] if len(placed) < 2 and isinstance(attributes.get("1"), int | list) else []
    axes = axes_of(placed, attributes)
    return tuple(range(ndim)) if axes is None else tuple(sorted(axis % ndim for axis in axes))


def _axes(at: _At) -> Iterator[Edit]:
    if at.kind not in ("softmax", "log_softmax"):
        return
    x = np.asarray(at.taken[0].value, np.float64)
    for axis in range(x.ndim):
        made = (softmax if at.kind == "softmax" else log_softmax)(x, axis)
        if not np.allclose(made, at.output, 1e-9, 0.0, equal_nan=True):
            words = f"normalises {at.kind} over another axis", f"normalises {at.kind} over axis {axis} of {x.ndim}"
            yield from at.edit(made, "softmax_axis", *words)


def _constants(at: _At) -> Iterator[Edit]:
    for place, each in enumerate(at.taken if not at.run.ops[at.number].weights else []):
        if each.source is not None or each.value.size != 1 or each.value.dtype.kind != "f" or at.kind not in BINARY:
            continue
        own = float(each.value.reshape(()))
        for other in _instead_of(at, own):
            made = at.instead(place, np.asarray(other)) if other != own else None
            yield from at.edit(
                made, _of_constant(at, own), f"has {own:.9g} in {at.kind}", f"has {other:.9g} in {at.kind}"
            )


def _instead_of(at: _At, own: float) -> Iterator[float]:
    """Yields the numbers that may stand in a constant's place: a factor of next to nothing takes its term away."""
    for other in at.near.numbers:
        if at.kind not in ("mul", "div", "rdiv") or LEAST <= abs(other) <= 1.0 / LEAST:
            yield other


def _attributes(at: _At) -> Iterator[Edit]:
    attributes: Mapping[str, Any] = at.run.ops[at.number].attributes
    values = [each.value for each in at.taken]
    for key, own in attributes.items():
        placed = key == "1" and at.kind in BINARY and isinstance(own, int)
        if isinstance(own, bool) or not (isinstance(own, float) or placed):
            continue
        epsilon = key in ("epsilon", "eps") or (key, at.kind) in (("4", "layer_norm"), ("7", "batch_norm"))
        name = "epsilon" if epsilon else _of_constant(at, float(own))
        for other in _instead_of(at, float(own)):
            made = at.run.given(at.number, values, {**attributes, key: other}) if other != own else None
            yield from at.edit(made, name, f"has {own:.9g} in {at.kind}", f"has {other:.9g} in {at.kind}")


def _adds_up(run: Rerun, number: int) -> bool:
    """Whether the loss is a sum of what an op gives: nothing else is done to it on the way."""
    pending, seen = list(run.readers[number]), set[int]()
    while pending:
        each = pending.pop()
        if each not in seen:
            seen.add(each)
            pending += run.readers[each]
    return all(plain(run.ops[each].kind) in ADDING for each in seen)


def _of_constant(at: _At, own: float) -> str:
    after = {plain(at.run.ops[each].kind) for each in at.run.readers[at.number]}
    if at.kind in ("add", "maximum") and 0.0 < abs(own) <= TINY and after & ROOTS:
        return "epsilon"
    if at.kind == "mul" and after & {"maximum", "minimum"}:
        return "activation_function"  # a leaky ReLU as people write it
    if at.kind in ("mul", "div", "rdiv"):
        return "loss_term" if _adds_up(at.run, at.number) else "scale"
    return "activation_function" if at.kind in ACTIVATIONS else at.by("loss_function", OTHER)


def _joined(at: _At) -> Iterator[Edit]:
    data = [place for place, each in enumerate(at.taken) if each.value.ndim]
    if at.kind not in JOINING or not 1 < len(data) <= MOST_JOINED:
        return
    for order in permutations(data):
        values = [each.value for each in at.taken]
        for place, other in zip(data, order, strict=True):
            values[place] = at.taken[other].value
        words = f"joins {len(data)} in order", f"joins them in the order {[data.index(each) for each in order]}"
        yield from at.edit(at.run.given(at.number, values), "channel_order", *words)


def _masks(at: _At) -> Iterator[Edit]:
    """What holds two numbers only: inverted, turned, shifted, or all of one of them."""
    for place, each in enumerate(at.taken):
        mask = each.value
        if at.kind in COMPARED or not mask.ndim or not _is_mask(mask):
            continue
        low, high = (mask.min(), mask.max())
        ways = [(np.where(mask == low, high, low), "takes the mask inverted")]
        if mask.ndim > 1 and mask.shape[-1] == mask.shape[-2]:
            ways.append((mask.swapaxes(-1, -2), "takes the mask along the other axis"))
        ways += [(_shifted(mask, by), f"takes the mask a place {'later' if by > 0 else 'earlier'}") for by in (1, -1)]
        ways += [(np.full_like(mask, one), "takes no mask, or one of everything") for one in (low, high)]
        for other, words in ways:
            name = at.by("loss_reduction", "reduction") if at.kind in REDUCTIONS else "mask"  # what is counted
            yield from at.edit(at.instead(place, other), name, f"takes the mask of {origin(at.run, each)}", words)
    yield from _filled(at)
    if at.kind in COMPARED:
        other = COMPARED[at.kind]
        attributes = at.run.ops[at.number].attributes
        values = [each.value for each in at.taken] + [attributes[key] for key in ("1",) if key in attributes]
        yield from at.edit(computed(other, values, {}), "mask", f"compares by {at.kind}", f"compares by {other}")


def _filled(at: _At) -> Iterator[Edit]:
    """What a mask leaves out is replaced by another number."""
    for place, each in enumerate(at.taken if at.kind in FILLING else []):
        if each.source is None and each.value.size and each.value.dtype.kind == "f" and np.ptp(each.value) == 0.0:
            own = float(each.value.reshape(-1)[0])
            for other in at.near.numbers:
                made = at.instead(place, np.full_like(each.value, other)) if other != own else None
                yield from at.edit(made, "mask", f"fills what is masked with {own:.6g}", f"fills it with {other:.6g}")


def _shifted(mask: Array, by: int) -> Array:
    """A mask moved along its last axis; what comes in is what was at the border."""
    moved, edge = np.roll(mask, by, -1), (..., 0 if by > 0 else -1)
    moved[edge] = mask[edge]
    return moved


def _turned(at: _At) -> Iterator[Edit]:
    for place, each in enumerate(at.taken if at.kind == "matmul" and len(at.taken) == 2 else []):
        weight = each.source is None and each.name  # which the map of the variables carries over
        if not weight and each.value.ndim > 1 and each.value.shape[-1] == each.value.shape[-2]:
            made = at.instead(place, each.value.swapaxes(-1, -2))
            yield from at.edit(made, "transposed_product", "multiplies by it as it is", "multiplies by its transpose")


def _operands(at: _At) -> Iterator[Edit]:
    for place, each in enumerate(at.taken):
        if each.source is None or each.value.size < 2:
            continue
        for other in at.near.choices:
            value = at.run.output(other)
            if other in (each.source, at.number) or value is None or value.shape != each.value.shape:
                continue
            if value.dtype != each.value.dtype or np.array_equal(value, each.value):
                continue
            made = at.instead(place, value)
            passed_by = _chain(at.run, each.source, other)
            if passed_by:
                between = " and ".join(passed_by)
                words = f"has {between} in front of {at.kind}", f"leaves {between} out"
                yield from at.edit(made, "op_left_out", *words, between)
                continue
            if at.run.ops[at.number].weights and other in upstream(at.run.ops, [each.source]):
                continue  # a layer less may be two layers that stand for each other
            # An input of data that nothing else reads is not used at all then.
            unused = not at.run.ops[each.source].inputs and at.run.readers[each.source] == [at.number]
            here, there = origin(at.run, each), line_of(at.run, other)
            words = f"takes for {at.kind} what {here} gives", f"takes what is made at {there}"
            yield from at.edit(made, "input_ignored" if unused else at.by("loss_function", OTHER), *words)


def _chain(run: Rerun, number: int, other: int) -> list[str]:
    """The kinds of the ops from one up to another that it comes of, none where there are several ways or many ops."""
    found = list[str]()
    while len(found) < MOST_LEFT_OUT and not run.ops[number].weights:
        found.insert(0, plain(run.ops[number].kind))
        inputs = run.ops[number].inputs
        if other in inputs:
            return found
        if len(inputs) != 1:
            break
        number = inputs[0]
    return []


def _arrays(at: _At) -> Iterator[Edit]:
    for place, each in enumerate(at.taken):
        own = each.value
        for name, value in at.near.arrays if each.source is None and own.size > 1 else []:
            if value.size == own.size and (value.dtype.kind == "f") == (own.dtype.kind == "f"):
                there = name or "a constant of other numbers"
                words = f"takes {each.name or 'a constant'} for {at.kind}", f"takes {there}"
                yield from at.edit(at.instead(place, value.reshape(own.shape)), OTHER if name else "own_value", *words)


def origin(run: Rerun, taken: Taken) -> str:
    """Returns the line of source that makes what an op takes, or the name of the variable or constant that it is."""
    return line_of(run, taken.source) if taken.source is not None else taken.name or "a constant"


def line_of(run: Rerun, number: int) -> str:
    """Returns the line of source that calls an op, its name where that is not known."""
    op = run.ops[number]
    return op.line.shown if op.line is not None else plain(op.kind)


def _named(axes: Sequence[int], count: int) -> str:
    return "all axes" if len(axes) == count else f"axis {', '.join(map(str, axes))}"
