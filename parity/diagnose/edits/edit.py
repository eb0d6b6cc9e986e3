"""A single change of an op of a forward pass, and what there is to try near it."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from parity.diagnose.ops.activations import FUNCTIONS, SLOPES, softmax
from parity.diagnose.ops.forward_pass import RecomputedPass, Taken
from parity.diagnose.ops.rearranging import LAYOUTS
from parity.diagnose.ops.table import UNARY, plain
from parity.trace.arrays import Array

OTHER_OPERATION = "other_operation"
LEAST_FACTOR = 1e-4  # with a smaller one what is multiplied by it is as good as gone
# Tried where the other side has one of them: few nets have.
RARE_ACTIVATIONS = frozenset(["selu", "mish", "hardswish", "hardsigmoid"])
EDITED_ACTIVATIONS = RARE_ACTIVATIONS | {
    "relu", "relu6", "sigmoid", "tanh", "softplus", "elu", "silu", "gelu", "leaky_relu", "hard", "softmax"
}  # fmt: skip
# What is missing of these is another activation function, none; a softmax or a norm that is missing is an op left out.
ACTIVATIONS_LEFT_OUT = EDITED_ACTIVATIONS - {"softmax"}
# Functions that a side may make of several ops, and are tried where one of these kinds is near.
NEEDING = {
    "GELU": {"gelu", "erf"},
    "GELU (tanh)": {"gelu", "tanh", "pow"},
    "hard sigmoid": {"relu6"},
    "hard swish": {"relu6"},
    "Mish": {"softplus"},
}
# Through these a term of the loss passes as a sum and a factor: what it is multiplied by is its weight.
ADDITIVE = LAYOUTS | frozenset(["add", "addn", "sub", "mul", "div", "neg", "mean", "sum", "rdiv", "rsub"])


class Edit(NamedTuple):
    """One change of an op.

    Fields:
      number: of the op.
      value: what it gives then.
      name: of the cause.
      as_is, changed: what the pass does without it and with it, as in "takes the mean over axis 1".
      dropped: what it leaves out: a kind of op, "mask" or "epsilon"; "" where it leaves nothing out.
      follows: whether it does something to what the op gives.
      beside: by number the output of another op that is changed with it.
      in_front: numbers of the ops in front of it that are left out, where it is one that takes what these give.
    """

    number: int
    value: Array
    name: str
    as_is: str
    changed: str
    dropped: str = ""
    follows: bool = False
    beside: tuple[tuple[int, Array], ...] = ()
    in_front: tuple[int, ...] = ()


class Near(NamedTuple):
    """What there is near the place where two passes part.

    Fields:
      kinds: of the other side's ops.
      numbers: constants, of the other side and such as people take.
      arrays: inputs of this side, each with its name, and then constants of the other, with "".
      choices: numbers of ops of this side whose output may be taken in place of another.
      fed: what the other side's ops take there: the kind of op, and what it takes.
      right: numbers of ops of this side whose output the other side has too.
      of_loss: whether it is behind all layers.
    """

    kinds: Collection[str]
    numbers: Sequence[float]
    arrays: Sequence[tuple[str, Array]]
    choices: Sequence[int]
    fed: Sequence[tuple[str, Array]]
    right: Collection[int]
    of_loss: bool


class At(NamedTuple):
    """An op that is changed."""

    run: RecomputedPass
    number: int
    kind: str
    taken: Sequence[Taken]
    output: Array
    near: Near

    def edit(self, value: Array | None, name: str, as_is: str, changed: str, dropped: str = "") -> Iterator[Edit]:
        """Yields the change to a value, none where it could not be computed or changes nothing."""
        # An edit without effect would be met wherever the sides are the same.
        if value is not None and not (value.shape == self.output.shape and np.array_equal(value, self.output)):
            yield Edit(self.number, value, name, as_is, changed, dropped)

    def instead(self, place: int, value: Any) -> Array | None:
        """What the op gives for another value in one place."""
        return self.run.given(self.number, [value if at == place else each.value for at, each in enumerate(self.taken)])

    def by(self, of_loss: str, otherwise: str) -> str:
        """The cause's name behind all layers, and elsewhere."""
        return of_loss if self.near.of_loss else otherwise


def at_number(run: RecomputedPass, number: int, near: Near) -> At | None:
    """Returns an op that may be changed, None where what it gives or takes is not known."""
    output, taken = run.output(number), run.takes(number)
    return At(run, number, plain(run.ops[number].kind), taken, output, near) if output is not None and taken else None


def name_without(kinds: Collection[str], of_loss: bool = False) -> str:
    """Returns the name of the cause where ops of some kinds are left out, one behind the other.

    Args:
      kinds: what they compute, as `plain` has it.
      of_loss: whether they are behind all layers: there a function is a part of the loss, and nobody's activation.
    """
    if of_loss and kinds and UNARY.keys() >= set(kinds):
        return "loss_function"
    return "activation_function" if kinds and not of_loss and ACTIVATIONS_LEFT_OUT.issuperset(kinds) else "op_left_out"


def is_loss(kind: str) -> bool:
    """Returns whether an op computes a loss function, as one that takes what is given and what it should be.

    Args:
      kind: of the op, as `plain` has it or as it was recorded.
    """
    name = kind.partition(" ")[0].lower()
    return name.endswith("_loss") or "cross_entropy" in name or "crossentropy" in name


def functions_of(x: Array, near: Collection[str]) -> Iterator[tuple[str, Array]]:
    """Yields the functions of one array that people take, and those that are near, where all they give is finite."""
    with np.errstate(all="ignore"):
        for name, function in UNARY.items():
            # Of the functions that are no activations only those are tried that the other side has near: a square root
            # in place of a logarithm is nobody's mistake.
            wanted = name in near or name in EDITED_ACTIVATIONS - RARE_ACTIVATIONS
            made = np.asarray(function(x)) if wanted else x
            if made is not x and np.isfinite(made).all():
                yield name, made
        for slope in SLOPES:
            yield f"leaky_relu of slope {slope:g}", np.where(x > 0, x, slope * x)
        if x.ndim:
            yield "softmax", softmax(x, -1)
        for name, needed in NEEDING.items():
            if needed & set(near):
                yield name.lower(), FUNCTIONS[name](x)


def adds_up(run: RecomputedPass, number: int) -> bool:
    """Returns whether the loss is a sum of what an op gives: nothing else is done to it on the way."""
    pending, seen = list(run.readers[number]), set[int]()
    while pending:
        each = pending.pop()
        if each not in seen:
            seen.add(each)
            pending += run.readers[each]
    return all(plain(run.ops[each].kind) in ADDITIVE for each in seen)


def is_mask(values: Array) -> bool:
    """Returns whether an array holds two numbers only, of which one takes away, or adds nothing: 0."""
    return of_two_numbers(values) and not values.all()


def of_two_numbers(values: Array) -> bool:
    """Returns whether an array holds two numbers only: a mask, or what two classes of things count."""
    # `unique` sorts, 0.4 s for a million numbers, and masks of attention have more: 65,536 of them show a third value.
    return values.size > 1 and len(np.unique(values.reshape(-1)[: 1 << 16])) == 2


def origin(run: RecomputedPass, taken: Taken) -> str:
    """Returns the line of source that makes what an op takes, or the name of the variable or constant that it is."""
    return line_of(run, taken.source) if taken.source is not None else taken.name or "a constant"


def line_of(run: RecomputedPass, number: int) -> str:
    """Returns the line of source that calls an op, its name where that is not known."""
    op = run.ops[number]
    return op.line.alone if op.line is not None else plain(op.kind)
