"""Single changes of what an op takes, and of what is done to what it gives."""

from collections.abc import Iterator, Sequence
from itertools import chain, combinations

import numpy as np

from parity.diagnose.agreement import CLOSE, same_in_order
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
    is_loss,
    is_mask,
    line_of,
    name_without,
    origin,
)
from parity.diagnose.fitting import different_numbers
from parity.diagnose.ops.forward_pass import RecomputedPass
from parity.diagnose.ops.rearranging import REARRANGING
from parity.diagnose.ops.table import plain
from parity.judge.metrics import is_constant, norm
from parity.locate.downstream import losses_of, upstream
from parity.locate.layouts import MOST_ALIGNED, layouts
from parity.locate.matching import alike
from parity.locate.rearranged import FEWEST_MOVED
from parity.trace import ForwardOp
from parity.trace.arrays import Array

ELEMENTWISE = frozenset(["add", "sub", "mul", "div"])
LEAST_NUMBERS = 3  # different ones, from which on one power of all is no chance
OF_WEIGHTS = {
    "moved_values": "the same numbers in other places",
    "other_rows": "other rows of it",
    OTHER_OPERATION: "other numbers that are made of weights",
}
MOST_PARTS = 8  # of what an op cuts apart
CUTTING = frozenset(["split", "splitv", "chunk", "unbind", "unstack", "unpack", "split_with_sizes", "tensor_split"])
MASKED_BY = frozenset(["mul", "add", "sub", "select", "selectv2", "where", "masked_fill", "masked scores"])
MOST_LEFT_OUT = 3  # ops in a row


def operand_edits(run: RecomputedPass, number: int, near: Near) -> Iterator[Edit]:
    """Yields the changes of what one op takes, and of what is done to what it gives.

    Args:
      run: the pass.
      number: of the op.
      near: what there is near there.
    """
    at = at_number(run, number, near)
    if at is not None and run.computes(number):
        yield from _operands(at)
        yield from _arrays(at)
    yield from followed(run, number, near)


def followed(run: RecomputedPass, number: int, near: Near) -> Iterator[Edit]:
    """Yields the changes that do something to an op's output: a function of it, a factor.

    Args:
      run: the pass.
      number: of the op.
      near: what there is near there.
    """
    yield from (edit._replace(follows=True) for edit in _followed(run, number, near))


def _followed(run: RecomputedPass, number: int, near: Near) -> Iterator[Edit]:
    output, kind = run.output(number), plain(run.ops[number].kind)
    if output is None or output.dtype.kind != "f":
        return
    at, made = At(run, number, kind, [], output, near), np.asarray(output, np.float64)
    as_is = f"goes on with {kind} as it is"
    for name, value in functions_of(made, near.kinds):
        yield from at.edit(value, _name_of(name.split(" ")[0], near.of_loss), as_is, f"takes {name} of it")
    # A gate, a probability or a mask: in place of z people take 1 - z.
    if made.size > 1 and made.min() >= 0.0 and made.max() <= 1.0:
        gate = OTHER_OPERATION
        if kind in ("sigmoid", "softmax"):
            gate = "activation_function" if _shapes_what_it_is_of(run, number) else "gate_halves"
        yield from at.edit(1.0 - made, gate, as_is, "takes 1 less it")
    for number_ in near.numbers:
        if LEAST_FACTOR <= abs(number_) <= 1.0 / LEAST_FACTOR:
            yield from at.edit(
                number_ * made, _of_factor(run, number, number_), as_is, f"multiplies it by {number_:.9g}"
            )


def _of_factor(run: RecomputedPass, number: int, factor: float) -> str:
    """The cause where what an op gives is multiplied by a number more."""
    if adds_up(run, number):
        # A regularisation of 0 may be added behind it: what is all of the loss is no term of it.
        whole, own = run.output(losses_of(run.ops)[-1]), run.output(number)
        of_all = whole is not None and own is not None and np.array_equal(whole, own)
        return ("sign" if factor == -1.0 else "gradient_factor") if of_all else "loss_term"
    # Turned round it is what is subtracted rather than added.
    return OTHER_OPERATION if factor == -1.0 else "extra_scale"


def _name_of(function: str, of_loss: bool) -> str:
    """The cause where a function more is taken of an output."""
    if not of_loss:
        return "activation_function" if function in EDITED_ACTIVATIONS else OTHER_OPERATION
    # Losses take logits: probabilities for these are a softmax, or a sigmoid, too many.
    return "cross_entropy" if function in ("softmax", "sigmoid") else "loss_function"


def _shapes_what_it_is_of(run: RecomputedPass, number: int) -> bool:
    """Whether all that a share is multiplied by is the one output that it is made of: an activation, as x sigmoid(x) is.

    What a gate opens for is another output than what it closes for.
    """
    pending, factors = [number], set[int]()
    while pending:
        each = pending.pop()
        for reader in run.readers[each]:
            others = set(run.ops[reader].inputs) - {each}
            kind = plain(run.ops[reader].kind)
            if kind == "mul" and others:
                factors |= others
            elif kind in ELEMENTWISE | {"rsub"} and not others:
                pending.append(reader)  # 1 less it, or a multiple by a weight
    return len(factors) == 1 and factors <= upstream(run.ops, [number])


def _operands(at: At) -> Iterator[Edit]:
    for place, each in enumerate(at.taken):
        if each.source is None or each.value.size < 2:
            continue
        for other in at.near.choices:
            value = _spread(at.run.output(other), each.value.shape)
            if other in (each.source, at.number) or value is None:
                continue
            if value.dtype != each.value.dtype or np.array_equal(value, each.value):
                continue
            made = at.instead(place, value)
            passed_by = _chain(at.run, each.source, other)
            if passed_by:
                kinds = [plain(at.run.ops[number].kind) for number in passed_by]
                between = " and ".join(kinds)
                words = f"has {between} in front of {at.kind}", f"leaves {between} out"
                name = name_without(kinds, at.near.of_loss)
                if at.kind in ("mul", "div") and _is_one_over(at.run, passed_by, other):
                    name, turned = at.by("loss_function", "scale"), {"mul": "divides by", "div": "multiplies by"}
                    words = f"{turned[at.kind]} it", f"{turned['div' if at.kind == 'mul' else 'mul']} it"
                for edit in at.edit(made, name, *words, between):
                    yield edit._replace(in_front=tuple(passed_by))
                continue
            if at.run.ops[at.number].weights and other in upstream(at.run.ops, [each.source]):
                continue  # a layer less may be two layers that stand for each other
            # An input of data that nothing else reads is not used at all then.
            unused = at.run.readers[each.source] == [at.number] and _is_all_that_reads_its_data(at.run, each.source)
            here, there = origin(at.run, each), line_of(at.run, other)
            words = f"takes for {at.kind} what {here} gives", f"takes what is made at {there}"
            # What another term of the loss is made of, in the same way: that term counts twice, and this one not at all.
            twice = at.near.of_loss and _is_of_a_like_term(at.run, each.source, other)
            cause = "input_ignored" if unused else "loss_term" if twice else at.by("loss_function", OTHER_OPERATION)
            yield from at.edit(made, cause, *words)


def _is_one_over(run: RecomputedPass, numbers: Sequence[int], divisor: int) -> bool:
    """Whether an op gives 1 over what another one gives: then what is multiplied by it is divided by that."""
    if len(numbers) != 1:
        return False
    given = run.output(numbers[0])
    divided = run.output(divisor)
    return given is not None and divided is not None and bool(divided.all()) and same_in_order(given, 1 / divided)


def _is_of_a_like_term(run: RecomputedPass, number: int, other: int) -> bool:
    """Whether an op, or one that another op is made of, is of the kind of another line's op: as two terms of a loss are."""
    own = run.ops[number]
    for _ in range(MOST_LEFT_OUT):
        op = run.ops[other]
        if op.kind == own.kind:
            return None not in (op.line, own.line) and op.line != own.line
        weighted = [each for each in op.inputs if each not in run.of_data]
        if len(weighted) != 1:
            return False
        other = weighted[0]
    return False


def _is_all_that_reads_its_data(run: RecomputedPass, number: int) -> bool:
    """Whether an op is made of data alone, of which no other op is made."""
    op = run.ops[number]
    data = {each.name for each in op.operands if each.op is None and each.name}
    read = (each.name for at, other in enumerate(run.ops) if at != number for each in other.operands)
    return not op.inputs and data.isdisjoint(read)


def _spread(value: Array | None, shape: tuple[int, ...]) -> Array | None:
    """An output in a shape that it has, or is broadcast to with as many axes, as a mask of keys is over all queries."""
    if value is None or value.ndim != len(shape):
        return None
    if any(length not in (1, wanted) for length, wanted in zip(value.shape, shape, strict=True)):
        return None
    return np.broadcast_to(value, shape)


def _chain(run: RecomputedPass, number: int, other: int) -> list[int]:
    """The ops from one up to another that it comes of, none where there are several ways or many ops."""
    found = list[int]()
    # Back from one op through single inputs: a chain, each of which may be left out without another way around it.
    # Of weights too where it only adds them, or multiplies by them: more is a layer.
    while len(found) < MOST_LEFT_OUT and (not run.ops[number].weights or plain(run.ops[number].kind) in ELEMENTWISE):
        found.insert(0, number)
        inputs = run.ops[number].inputs
        if other in inputs:
            return found
        if len(inputs) != 1:
            break
        number = inputs[0]
    return []


def exchanged(run: RecomputedPass, number: int) -> Iterator[Edit]:
    """Yields the changes that give one part of what an op cuts apart for another part of it, and that one for this.

    Args:
      run: the pass.
      number: of the op that gives one part.
    """
    op, own = run.ops[number], run.output(number)
    parts = _parts(run, number)
    for other in parts:
        value = run.output(other)
        if other == number or own is None or value is None or own.shape != value.shape or np.array_equal(own, value):
            continue
        words = (
            f"takes two parts of {plain(op.kind)} one way",
            "takes them the other way round",
        )
        gated = _gates(run, number, other) or _gates(run, other, number)
        # Along the first axis they are parts of the batch; along one that is gone and was not the last, steps or fields.
        whole = _divided(run, number, own)
        # Weights, as a bias of all gates, have no batch.
        of_batch = whole.shape[1:] == own.shape[1:] and (bool(op.inputs) or not op.weights)
        of_steps = whole.ndim == own.ndim + 1 and _axis_of(op, whole.ndim) != whole.ndim - 1
        name = "gate_halves" if gated else "moved_values" if of_batch or of_steps else "channel_order"
        # Several of them are gates of one cell.
        if sum(_opens(run, each) for each in parts) > 1:
            name = "gate_order"
        yield Edit(number, value, name, *words, beside=((other, own),))


def _parts(run: RecomputedPass, number: int) -> list[int]:
    """The ops that give the parts which one call cuts something into: of one kind, with the same inputs and line.

    They are next to each other in a pass.
    """
    op, near = run.ops[number], range(max(number - MOST_PARTS, 0), min(number + MOST_PARTS, len(run.ops)))
    parts = [n for n in near if (run.ops[n].kind, run.ops[n].inputs, run.ops[n].line) == (op.kind, op.inputs, op.line)]
    return parts if op.kind.strip("_").lower() in CUTTING else []


def _opens(run: RecomputedPass, number: int) -> bool:
    """Whether an output is what a gate is made of: a sigmoid takes it, or it with something added, as a forget bias."""
    after = list(run.readers[number])
    after += [each for reader in after if plain(run.ops[reader].kind) == "add" for each in run.readers[reader]]
    return any(plain(run.ops[each].kind) == "sigmoid" for each in after)


def _divided(run: RecomputedPass, number: int, part: Array) -> Array:
    """What an op divides into parts, be it another op's output or an input; the part where that is not known."""
    made = (run.output(each) for each in run.ops[number].inputs[:1])
    read = (each.value for each in run.takes(number) or () if each.source is None and each.value.size > part.size)
    return next((each for each in chain(made, read) if each is not None), part)


def _axis_of(op: ForwardOp, axes: int) -> int:
    """The axis along which an op cuts what has so many: the first one where nothing says another."""
    found = next((op.attributes[key] for key in ("axis", "dim", "1") if isinstance(op.attributes.get(key), int)), 0)
    return int(found) % axes


def _gates(run: RecomputedPass, gate: int, gated: int) -> bool:
    """Whether the sigmoid of one output is what another one is multiplied by, or a function of it."""
    for share in run.readers[gate]:
        for product in run.readers[share] if plain(run.ops[share].kind) == "sigmoid" else ():
            others = set(run.ops[product].inputs) - {share}
            shaped = {each for other in others for each in run.ops[other].inputs}
            if plain(run.ops[product].kind) == "mul" and gated in others | shaped:
                return True
    return False


def moved_edits(run: RecomputedPass, number: int, near: Near) -> Iterator[Edit]:
    """Yields the changes of what an op takes to the same numbers in the places in which the other side has them.

    Args:
      run: the pass.
      number: of the op.
      near: what there is near there.
    """
    at = at_number(run, number, near)
    if at is not None and run.computes(number):
        yield from _moved(at)


def _moved(at: At) -> Iterator[Edit]:
    for place, each in enumerate(at.taken):
        own = each.value
        if own.size < FEWEST_MOVED or own.ndim > MOST_ALIGNED or (each.source is None and each.name):
            continue
        # Of few different numbers the same ones say nothing of where they were: of two masks many keep as many.
        masked = own.dtype.kind in "fb" and is_mask(own)
        if not masked and (own.dtype.kind != "f" or different_numbers(own) < FEWEST_MOVED):
            continue
        here = origin(at.run, each)
        for taker, other in at.near.fed:
            if other.size != own.size or other.ndim > MOST_ALIGNED or other.dtype.kind != own.dtype.kind:
                continue
            if not (_masks_by_the_same_numbers(own, other) if masked else _same_numbers(own, other)):
                continue
            # In the shape that is taken, by every order of axes: as the op on the other side may have its axes
            # elsewhere.
            for arranged in layouts(other, own.shape):
                if not np.array_equal(arranged, own):
                    name, *words = _of_moved(at.kind, own, arranged, here, taker if masked else None)
                    of_input = each.source is None or each.source in at.run.of_data
                    # Of a matrix it is the product that is transposed; of images the input.
                    of_images = name == "transposed_product" and own.ndim > 2
                    if (name == "moved_values" or of_images) and of_input and _has_two_axes_exchanged(own, arranged):
                        name, words = "transposed_input", [words[0], "takes it with two of its axes exchanged"]
                    yield from at.edit(at.instead(place, arranged), name, *words)
            if not masked:
                yield from _moved_for_all_readers(at, each.source, other, here)


def _of_moved(kind: str, own: Array, arranged: Array, here: str, masks_for: str | None) -> tuple[str, str, str]:
    """The cause where what an op takes is exchanged for the same numbers in other places, and the words for both.

    `masks_for` is the kind of op that takes two numbers as a mask on the other side, None where they are many.
    """
    # A loss function compares with what it is given: those two numbers are labels, and hide nothing.
    if masks_for is not None and is_loss(masks_for):
        return OTHER_OPERATION, f"takes the labels of {here}", "takes other labels"
    if masks_for is not None:
        return "mask", f"takes the mask of {here}", "takes another mask"
    square = own.ndim > 1 and own.shape[-1] == own.shape[-2]
    if square and alike(own.swapaxes(-1, -2), arranged, CLOSE):  # each side may have computed a constant by itself
        return "transposed_product", f"takes what {here} gives for {kind} as it stands", "takes its transpose"
    words = f"takes what {here} gives for {kind} as it stands", "takes the same numbers in other places"
    return "moved_values", *words


def _has_two_axes_exchanged(own: Array, arranged: Array) -> bool:
    """Whether an array is another one of its shape with two axes behind the first, which counts examples, exchanged."""
    pairs = combinations(range(1, own.ndim), 2)
    return any(
        own.shape[one] == own.shape[other] and alike(own.swapaxes(one, other), arranged, CLOSE) for one, other in pairs
    )


def _moved_for_all_readers(at: At, source: int | None, other: Array, here: str) -> Iterator[Edit]:
    """Yields the changes of an op's output to the same numbers in other places, for all that take it."""
    output = at.run.output(source) if source is not None and len(at.run.readers[source]) > 1 else None
    if source is None or output is None or output.size != other.size or output.ndim > MOST_ALIGNED:
        return
    for arranged in layouts(other, output.shape):
        if not np.array_equal(arranged, output):
            yield Edit(source, arranged, *_of_moved(at.kind, output, arranged, here, None))


def _masks_by_the_same_numbers(one: Array, other: Array) -> bool:
    """Whether two masks hold the same two numbers."""
    return is_mask(other) and bool(np.array_equal(np.unique(one), np.unique(other)))


def _same_numbers(one: Array, other: Array) -> bool:
    return alike(np.sort(one, axis=None), np.sort(other, axis=None), CLOSE)


def _arrays(at: At) -> Iterator[Edit]:
    for place, each in enumerate(
        at.taken[:1] if at.kind in REARRANGING else at.taken
    ):  # the others are places, no numbers
        own = each.value
        for name, value in at.near.arrays if each.source is None and own.size > 1 else []:
            if value.size == own.size and (value.dtype.kind == "f") == (own.dtype.kind == "f"):
                power = power_between(own, value) if at.run.ops[at.number].weights and not name else None
                there = name or "a constant of other numbers"
                words = f"takes {each.name or 'a constant'} for {at.kind}", f"takes {there}"
                if power is not None:
                    words = (
                        f"takes for {at.kind} what is made of weights as it is",
                        f"takes it to the power {power:.6g}",
                    )
                # One number throughout was computed of shapes alone, as shares of zeros are: it is nobody's value.
                computed = is_constant(own) and is_constant(value)
                masks = not name and own.dtype.kind in "fb" and at.kind in MASKED_BY and is_mask(own)
                if masks and own.dtype == value.dtype and _masks_by_the_same_numbers(own, value):
                    words = (f"takes for {at.kind} the mask {each.name or 'of a constant'}", "takes another mask")
                    yield from at.edit(at.instead(place, value.reshape(own.shape)), "mask", *words)
                    continue
                cause = "scale" if power is not None else OTHER_OPERATION if name or computed else "own_value"
                of_weights = _of_weights(at, place, value) if cause == "own_value" else ""
                if of_weights:
                    cause = of_weights
                    words = f"takes what is made of weights for {at.kind} as it stands", f"takes {OF_WEIGHTS[cause]}"
                yield from at.edit(at.instead(place, value.reshape(own.shape)), cause, *words)


def _of_weights(at: At, place: int, theirs: Array) -> str:
    """The cause where both sides take the same weights otherwise; "" where nothing shows it."""
    own, alone = at.taken[place].value, [n for n, each in enumerate(at.taken) if each.source is None]
    # All that the op takes from no other op is what it has of weights.
    if not at.run.ops[at.number].weights or alone != [place] or len(np.unique(own)) < LEAST_NUMBERS:
        return ""
    if _same_numbers(own, theirs):
        return "moved_values"
    # A table that is looked up in by positions: all that either side has is of it, to the last bit.
    # Else what was computed of them: a graph's pass has no ops of weights alone to say which op it was.
    return "other_rows" if np.isin(theirs, own).all() else OTHER_OPERATION


def power_between(own: Array, other: Array) -> float | None:
    """Returns the power of one array's numbers that another's are, as of exponentials of multiples; None where it is none.

    Args:
      own: positive numbers, not all the same.
      other: as many.
    """
    if own.dtype.kind != "f" or own.min() <= 0.0 or other.min() <= 0.0:
        return None
    # other = own^p is log other = p log own: least squares of one unknown, p = <a, b> / <a, a>, which has to hold to
    # CLOSE.
    one, two = np.log(np.asarray(own, np.float64)).reshape(-1), np.log(np.asarray(other, np.float64)).reshape(-1)
    if len(np.unique(one)) < LEAST_NUMBERS:
        return None
    power = float(one @ two / (one @ one))
    exact = norm(two - power * one) <= CLOSE * norm(two)
    return power if exact and abs(power - 1.0) > LEAST_FACTOR else None
