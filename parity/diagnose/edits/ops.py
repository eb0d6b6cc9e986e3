"""Single changes of what an op computes: left out, another function, constant, axis, order or mask."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import combinations, permutations
from typing import Any

import numpy as np

from parity.diagnose.agreement import same_values
from parity.diagnose.edits.edit import (
    EDITED_ACTIVATIONS,
    LEAST_FACTOR,
    OTHER_OPERATION,
    At,
    Edit,
    Near,
    adds_up,
    at_number,
    functions_of,
    is_mask,
    line_of,
    name_without,
    origin,
)
from parity.diagnose.edits.masks import FILLING, counts_things, mask_edits
from parity.diagnose.edits.mixtures import mixture_edits
from parity.diagnose.edits.windows import window_edits
from parity.diagnose.ops.activations import log_softmax, softmax
from parity.diagnose.ops.forward_pass import RecomputedPass, Taken
from parity.diagnose.ops.rearranging import CONCATENATING, LAYOUTS, REARRANGING
from parity.diagnose.ops.resize import resized
from parity.diagnose.ops.table import BINARY, REDUCTIONS, UNARY, axes_of, plain, running_sum
from parity.locate.downstream import upstream
from parity.trace.arrays import Array

LARGEST_EPSILON = 1e-2  # below which what is added before a root, a logarithm or a division is an epsilon
MOST_JOINED = 4  # tensors: 24 orders
MOST_INDICES = 64  # places of an axis, of which one is picked
MOST_OPS_OF_LENGTH = 5  # an epsilon, a root, a reciprocal and layouts, up to what is divided by a length
MOST_SHIFTED = 4  # places of an axis that are cut off
MASKED = -1e9  # as good as -inf in a softmax, beside any score
Function = Callable[[Array], Array]
ACCUMULATING = frozenset(["cumsum"])
RESIZING = ("upsample", "resize")
# What an epsilon keeps away from 0.
ROOTS = frozenset(["rsqrt", "sqrt", "div", "log", "rdiv", "reciprocal", "maximum", "pow"])
# Between scores and a softmax of them: scores that are masked, shifted, joined or laid out anew.
INTO_SCORES = LAYOUTS | CONCATENATING | FILLING | frozenset(["add", "sub", "masked_fill"])


def plain_edits(run: RecomputedPass, number: int, near: Near) -> Iterator[Edit]:
    """Yields the changes of what one op computes.

    Args:
      run: the pass.
      number: of the op.
      near: what there is near there.
    """
    at = at_number(run, number, near)
    if at is None:
        return
    # These need what the op took and gave, and no rule of it; the rest computes it again.
    yield from _picked(at) if at.kind in REARRANGING | LAYOUTS else _left_out(at)
    yield from _cut(at)
    yield from _resized(at)
    if run.computes(number):
        for changes in (
            _functions,
            _exchanged,
            _reduced,
            _accumulated,
            _axes,
            _constants,
            _attributes,
            _joined,
            mask_edits,
            mixture_edits,
            _turned,
            _along_the_other,
            _in_order,
        ):
            yield from changes(at)
        yield from window_edits(at)


def _left_out(at: At) -> Iterator[Edit]:
    for each in at.taken:
        value = each.value
        beside = [other for other in at.taken if other is not each]
        # A number times a mask is that number where no mask is taken, whatever the two are multiplied by later.
        scalar = at.kind in ("mul", "add") and value.size == 1 < at.output.size
        scalar = scalar and any(is_mask(other.value) for other in beside)
        value = np.broadcast_to(value, at.output.shape) if scalar else value
        # Only what has the size of the output can stand in its place: an op that changes sizes is not left out.
        alike = value.size == at.output.size and value.dtype.kind == at.output.dtype.kind
        if not alike or not value.size or (each.source is None and each.name and not scalar):
            continue
        if not at.run.computes(at.number) and each.source not in at.near.right:
            continue  # what nothing is known of, of what may be anything
        constants = [float(o.value.reshape(())) for o in at.taken if o.value.size == 1 and o.value.dtype.kind == "f"]
        constants += [
            float(v) for k, v in at.run.ops[at.number].attributes.items() if k == "1" and isinstance(v, float)
        ]
        tiny = any(_of_constant(at, each) == "epsilon" for each in constants)
        # A number times itself is its square, however it is written.
        squared = at.kind == "mul" and each.source is not None and {o.source for o in beside} == {each.source}
        kind = "square" if squared else at.kind
        dropped = "mask" if any(is_mask(other.value) for other in beside) else "epsilon" if tiny else kind
        given = origin(at.run, beside[0]) if len(beside) == 1 and beside[0].source is not None else ""
        # An op of the same line tells nothing of what the line lacks.
        what = f"what {given} gives" if given and given != line_of(at.run, at.number) and not squared else kind
        words = f"has {kind} there", f"leaves {what} out"
        name = "epsilon" if dropped == "epsilon" else name_without({dropped}, at.near.of_loss)
        if at.kind == "div" and any(
            counts_things(at.run, other) and not _is_made_of(at, other, each) for other in beside
        ):
            name = at.by("loss_reduction", "reduction")  # a sum for a mean
        if at.kind in ("mul", "div") and constants and all(o.source is None and o.value.size == 1 for o in beside):
            name = _of_constant(at, constants[0])  # a factor that is 1 instead
        yield from at.edit(value.reshape(at.output.shape), name, *words, dropped)


def _is_made_of(at: At, divisor: Taken, value: Taken) -> bool:
    """Whether what is divided by is made of what is divided: shares that add up to 1 are no mean."""
    return divisor.source is not None and value.source in upstream(at.run.ops, [divisor.source])


def _picked(at: At) -> Iterator[Edit]:
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
        # Of the last axis a place is a channel or a class, and no position of a sequence. Where every position is taken
        # by itself, as the steps of a loop are, nothing is pooled: another one is the sequence in another order.
        in_steps = _cut_into(at, axis)
        name_of_place = "channel_order" if axis == x.ndim - 1 else "moved_values" if in_steps else "pooling"
        for other in [-1, *range(min(count, MOST_INDICES))]:
            words = f"takes {'the last place' if other < 0 else f'place {other}'} of axis {axis}"
            yield from at.edit(np.take(x, other, axis).reshape(at.output.shape), name_of_place, as_is, words)
        for name in ("mean", "max", "sum"):
            made = np.asarray(REDUCTIONS[name](x, axis=axis)).reshape(at.output.shape)
            yield from at.edit(made, "pooling", as_is, f"takes the {name} over axis {axis}")


def _cut_into(at: At, axis: int) -> bool:
    """Whether what an op picks one place of an axis of is cut into all of its places, by it and others like it."""
    x, source = at.taken[0].value, at.taken[0].source
    if source is None:
        return False
    like = [n for n in at.run.readers[source] if plain(at.run.ops[n].kind) == at.kind]
    outputs = [value for n in like if (value := at.run.output(n)) is not None and value.size == at.output.size]
    places = [np.take(x, place, axis).reshape(-1) for place in range(x.shape[axis])]
    return all(any(np.array_equal(place, each.reshape(-1)) for each in outputs) for place in places)


def _cut(at: At) -> Iterator[Edit]:
    """One stretch of an axis is taken: another one is."""
    x, made = at.taken[0].value, at.output
    axes = [axis for axis in range(1, x.ndim) if x.ndim == made.ndim and x.shape[axis] != made.shape[axis]]
    if at.kind not in REARRANGING or len(axes) != 1:
        return
    axis, count = axes[0], made.shape[axes[0]]
    if count < 2 or x.shape[axis] - count > MOST_SHIFTED or x[..., :1].size == 0:
        return
    # By where they begin: with labels that are a sequence shifted by one, the stretch a place on is the usual mistake.
    stretches = {start: np.take(x, range(start, start + count), axis) for start in range(x.shape[axis] - count + 1)}
    own = next((start for start, each in stretches.items() if np.array_equal(each, made)), None)
    for start, each in stretches.items() if own is not None else ():
        words = (f"takes places {first} to {first + count - 1} of axis {axis}" for first in (own, start))
        yield from at.edit(each, at.by("labels_shifted", OTHER_OPERATION), *words)


def _resized(at: At) -> Iterator[Edit]:
    x = at.taken[0].value
    if not at.kind.startswith(RESIZING) or x.ndim != 4 or at.output.ndim != 4 or x.dtype.kind != "f":
        return
    last = at.kind.startswith("resize")  # channels: of a graph
    images, output = (each if last else np.moveaxis(each, 1, -1) for each in (x, at.output))
    ways = dict(resized(np.asarray(images, np.float64), output.shape[1:3]))
    own = next((words for words, made in ways.items() if same_values(output, made)), None)
    for words, made in ways.items() if own is not None else ():
        given = made if last else np.moveaxis(made, -1, 1)
        yield from at.edit(given, "resizing", f"resizes {own}", f"resizes {words}")


def _in_order(at: At) -> Iterator[Edit]:
    """A function is taken of what an op gives, rather than of one of the things that it takes; or the other way round."""
    for place, each in enumerate(at.taken if at.kind in BINARY else []):
        inner = _taken_by(at, each, UNARY)
        # From f(x) op y to f(x op y).
        if inner is not None and len(inner[1]) == 1 and inner[1][0].value.shape == each.value.shape:
            made = at.instead(place, inner[1][0].value)
            if made is not None:
                yield from _turned_round(at, inner[0], at.kind, UNARY[inner[0]], made)
    # And from f(x op y) to f(x) op y.
    outer = _taken_by(at, at.taken[0], BINARY) if at.kind in UNARY and len(at.taken) == 1 else None
    for place, each in enumerate(outer[1] if outer is not None else []):
        number = at.taken[0].source
        if outer is None or number is None or each.value.dtype.kind != "f":
            continue
        with np.errstate(all="ignore"):
            given = np.asarray(UNARY[at.kind](np.asarray(each.value, np.float64)))
        values = [given if where == place else other.value for where, other in enumerate(outer[1])]
        made = at.run.given(number, values)
        if made is not None and made.size == at.output.size:
            yield from _turned_round(at, at.kind, outer[0], None, made.reshape(at.output.shape))


def _taken_by(at: At, each: Taken, among: Collection[str]) -> tuple[str, Sequence[Taken]] | None:
    """Kind and operands of the op that gives what is taken, where it is one of some kinds, and as it gives it."""
    if each.source is None or plain(at.run.ops[each.source].kind) not in among:
        return None
    taken = at.run.takes(each.source)
    return (plain(at.run.ops[each.source].kind), taken) if taken is not None else None


def _turned_round(at: At, inner: str, outer: str, function: Function | None, made: Array) -> Iterator[Edit]:
    cause = "activation_function" if inner in EDITED_ACTIVATIONS else at.by("loss_function", OTHER_OPERATION)
    words = f"takes {inner} in front of {outer}", f"takes {inner} behind {outer}"
    with np.errstate(all="ignore"):
        value = made if function is None else np.asarray(function(made))
    if value.shape == at.output.shape:
        yield from at.edit(value, cause, *(words if function is not None else words[::-1]))


def _functions(at: At) -> Iterator[Edit]:
    data = [each for each in at.taken if each.source is not None or not each.name]
    if (at.kind not in UNARY and at.kind not in EDITED_ACTIVATIONS) or len(data) != 1:
        return
    for name, made in functions_of(np.asarray(data[0].value, np.float64), at.near.kinds):
        known = {at.kind, name.split(" ")[0]} & EDITED_ACTIVATIONS
        if name == at.kind or (name == "softmax" and len(known) < 2):
            continue  # softmax adds up to 1, so that what is divided by its sum is left as it is
        cause = "activation_function" if known else at.by("loss_function", OTHER_OPERATION)
        yield from at.edit(made, cause, f"computes {at.kind}", f"computes {name}")


def _exchanged(at: At) -> Iterator[Edit]:
    if at.kind in ("sub", "div", "pow", "rsub", "rdiv") and len(at.taken) == 2:
        made = at.run.given(at.number, [each.value for each in at.taken[::-1]])
        words = f"has the operands of {at.kind} in order", f"exchanges the operands of {at.kind}"
        yield from at.edit(made, at.by("loss_function", OTHER_OPERATION), *words)


def _reduced(at: At) -> Iterator[Edit]:
    x = np.asarray(at.taken[0].value)
    if at.kind not in REDUCTIONS or x.dtype.kind not in "fiu" or not x.ndim:
        return
    own = _own_axes(at, x.ndim)
    keeps, cause = at.output.ndim == x.ndim, at.by("loss_reduction", "reduction")
    as_is = f"takes the {at.kind} over {_named(own, x.ndim)}"
    over = [axes for count in range(1, x.ndim + 1) for axes in combinations(range(x.ndim), count)]
    of_norm = _of_norm(at)
    # Over its own axes first: a mean for a sum is the likelier mistake.
    for axes in sorted(over, key=lambda each: each != own):
        for name, function in REDUCTIONS.items():
            if (axes, name) != (own, at.kind):
                made = np.asarray(function(x, axis=axes, keepdims=keeps), np.float64)
                named = "normalised_axis" if of_norm and name == at.kind else cause
                yield from at.edit(made, named, as_is, f"takes the {name} over {_named(axes, x.ndim)}")
    # In place of a mean over the steps of a sequence ports take its first or last.
    if len(own) == 1:
        for place, words in ((0, "first"), (-1, "last")):
            made = np.take(x, [place], own[0])
            yield from at.edit(made.reshape(at.output.shape), cause, as_is, f"takes the {words} of axis {own[0]}")


def _accumulated(at: At) -> Iterator[Edit]:
    """A running sum goes along another axis, from the other end, or with its own place left out of each."""
    if at.kind not in ACCUMULATING or at.taken[0].value.shape != at.output.shape:
        return
    x, cause = np.asarray(at.taken[0].value, np.float64), at.by("loss_reduction", "reduction")
    sums = {
        f"along axis {axis}{' from its end' if turned else ''}{', its own place left out' if left_out else ''}": (
            running_sum(x, axis, turned, left_out)
        )
        for axis in range(x.ndim)
        for turned in (False, True)
        for left_out in (False, True)
    }
    own = next((words for words, value in sums.items() if same_values(at.output, value)), None)
    for words, value in sums.items() if own is not None else ():
        yield from at.edit(value, cause, f"adds up {own}", f"adds up {words}")


def _of_norm(at: At) -> bool:
    """Whether a reduction is of squares whose root divides just what was squared: the length in a norm."""
    squares = at.taken[0].source
    squared = at.run.ops[squares] if squares is not None else None
    if squared is None or plain(squared.kind) not in ("square", "pow", "mul") or len(set(squared.inputs)) != 1:
        return False
    number, rooted = at.number, False
    for _ in range(MOST_OPS_OF_LENGTH):
        after = at.run.readers[number]
        if rooted and any(squared.inputs[0] in at.run.ops[each].inputs for each in after):
            return True
        if len(after) != 1:
            return False
        number = after[0]
        rooted = rooted or plain(at.run.ops[number].kind) in ("sqrt", "rsqrt", "pow")
    return False


def _own_axes(at: At, ndim: int) -> tuple[int, ...]:
    attributes = at.run.ops[at.number].attributes
    placed = [each.value for each in at.taken]
    placed += [attributes["1"]] if len(placed) < 2 and isinstance(attributes.get("1"), int | list) else []
    axes = axes_of(placed, attributes)
    return tuple(range(ndim)) if axes is None else tuple(sorted(axis % ndim for axis in axes))


def _axes(at: At) -> Iterator[Edit]:
    if at.kind not in ("softmax", "log_softmax"):
        return
    x, function = np.asarray(at.taken[0].value, np.float64), softmax if at.kind == "softmax" else log_softmax
    # Over another axis all may be masked: finite, which masks of ports are, they are equally large then, and no NaN.
    x = np.where(np.isneginf(x), MASKED, x)
    ways = [(function(x, axis), f"over axis {axis} of {x.ndim}") for axis in range(x.ndim)]
    # The other side may have what it goes over in parts, or joined: scores of every place, and of every one of its kinds.
    joined = {other.shape for kind, other in at.near.fed if plain(kind) == at.kind and other.size == x.size}
    for shape in sorted(joined - {x.shape}):
        words = "x".join(map(str, shape))
        ways += [
            (function(x.reshape(shape), axis).reshape(x.shape), f"over axis {axis} of {words}")
            for axis in range(len(shape))
        ]
    for made, words in ways:
        # Over axes of size 1, or of one number throughout, it is the same.
        if not np.allclose(made, at.output, 1e-9, 0.0, equal_nan=True):
            as_is = f"normalises {at.kind} over another axis"
            yield from at.edit(made, "softmax_axis", as_is, f"normalises {at.kind} {words}")


def _constants(at: At) -> Iterator[Edit]:
    for place, each in enumerate(at.taken if not at.run.ops[at.number].weights else []):
        if each.source is not None or each.value.size != 1 or each.value.dtype.kind != "f" or at.kind not in BINARY:
            continue
        own = float(each.value.reshape(()))
        for other in _instead_of(at, own):
            made = at.instead(place, np.asarray(other)) if other != own else None
            name = _of_constant(at, own)
            yield from at.edit(made, name, *(_has(name, each, at) for each in (own, other)))


def _instead_of(at: At, own: float) -> Iterator[float]:
    """Yields the numbers that may stand in a constant's place: a factor of next to nothing takes its term away."""
    for other in at.near.numbers:
        # Next to nothing times a term, or the term over what is huge, is the term left out, which has a name of its
        # own.
        if at.kind not in ("mul", "div", "rdiv") or LEAST_FACTOR <= abs(other) <= 1.0 / LEAST_FACTOR:
            yield other


def _attributes(at: At) -> Iterator[Edit]:
    attributes: Mapping[str, Any] = at.run.ops[at.number].attributes
    values = [each.value for each in at.taken]
    for key, own in attributes.items():
        placed = key == "1" and at.kind in BINARY and isinstance(own, int)
        if isinstance(own, bool) or not (isinstance(own, float) or placed):
            continue
        # The fourth argument of torch's layer_norm and the seventh of its batch_norm, where they come by place.
        epsilon = key in ("epsilon", "eps") or (key, at.kind) in (("4", "layer_norm"), ("7", "batch_norm"))
        name = "epsilon" if epsilon else _of_constant(at, float(own))
        for other in _instead_of(at, float(own)):
            made = at.run.given(at.number, values, {**attributes, key: other}) if other != own else None
            yield from at.edit(made, name, *(_has(name, each, at) for each in (own, other)))


def _has(name: str, number: float, at: At) -> str:
    return f"has the epsilon {number:.9g}" if name == "epsilon" else f"has {number:.9g} in {at.kind}"


def _of_constant(at: At, own: float) -> str:
    kinds = {each: plain(at.run.ops[each].kind) for each in at.run.readers[at.number]}
    after = set(kinds.values())
    limits = [each for each, kind in kinds.items() if kind in ("maximum", "minimum")]
    if at.kind in ("add", "maximum") and 0.0 < abs(own) <= LARGEST_EPSILON and after & ROOTS:
        return "epsilon"
    if at.kind == "mul" and any(set(at.run.ops[at.number].inputs) & set(at.run.ops[each].inputs) for each in limits):
        return "activation_function"  # a leaky ReLU as people write it, max(x, a x)
    if at.kind in ("mul", "div", "rdiv"):
        # Behind all layers a factor is a part of the loss's form, but for the scale of what goes into a softmax.
        scales = not at.near.of_loss or _goes_into_softmax(at)
        return "loss_term" if adds_up(at.run, at.number) else "scale" if scales else "loss_function"
    return "activation_function" if at.kind in EDITED_ACTIVATIONS else at.by("loss_function", OTHER_OPERATION)


def _goes_into_softmax(at: At) -> bool:
    """Whether what an op gives is taken by a softmax or a cross entropy, as it is or with a mask or a sum in between."""
    pending, seen = [at.number], set[int]()
    while pending:
        after = [each for each in at.run.readers[pending.pop()] if each not in seen]
        kinds = {each: plain(at.run.ops[each].kind) for each in after}
        if any("softmax" in kind or "cross_entropy" in kind for kind in kinds.values()):
            return True
        seen.update(after)
        pending += [each for each, kind in kinds.items() if kind in INTO_SCORES]
    return False


def _joined(at: At) -> Iterator[Edit]:
    data = [place for place, each in enumerate(at.taken) if each.value.ndim]
    if at.kind not in CONCATENATING or not 1 < len(data) <= MOST_JOINED:
        return
    for order in permutations(data):
        values = [each.value for each in at.taken]
        for place, other in zip(data, order, strict=True):
            values[place] = at.taken[other].value
        words = f"joins {len(data)} in order", f"joins them in the order {[data.index(each) for each in order]}"
        yield from at.edit(at.run.given(at.number, values), "channel_order", *words)


def _turned(at: At) -> Iterator[Edit]:
    for place, each in enumerate(at.taken if at.kind == "matmul" and len(at.taken) == 2 else []):
        weight = each.source is None and each.name  # which the map of the variables carries over
        if not weight and each.value.ndim > 1 and each.value.shape[-1] == each.value.shape[-2]:
            made = at.instead(place, each.value.swapaxes(-1, -2))
            yield from at.edit(made, "transposed_product", "multiplies by it as it is", "multiplies by its transpose")


def _along_the_other(at: At) -> Iterator[Edit]:
    """A number for each row of a square is taken for each column, or the other way round."""
    output = at.output
    if at.kind not in BINARY or output.ndim < 2 or output.shape[-1] != output.shape[-2]:
        return
    for place, each in enumerate(at.taken):
        value = each.value[None, :] if each.value.ndim == 1 else each.value
        if value.ndim >= 2 and sorted(value.shape[-2:]) == [1, output.shape[-1]] and value.size > 1:
            made = at.instead(place, value.swapaxes(-1, -2))
            words = f"takes for {at.kind} what {origin(at.run, each)} gives", "takes it along the other axis"
            yield from at.edit(made, at.by("loss_function", OTHER_OPERATION), *words)


def _named(axes: Sequence[int], count: int) -> str:
    return "all axes" if len(axes) == count else f"axis {', '.join(map(str, axes))}"
