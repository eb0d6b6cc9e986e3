"""Says what is made of a weight before an op takes it, where the two sides make different things of one and the same."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain, combinations
from typing import NamedTuple

import numpy as np

from parity.diagnose.agreement import CLOSE
from parity.diagnose.catalogue import build_cause
from parity.diagnose.edits.edit import OTHER_OPERATION
from parity.diagnose.ops.activations import softmax
from parity.judge.metrics import norm
from parity.judge.result import Cause
from parity.locate.layouts import layouts, same_in_some_layout
from parity.trace.arrays import Array

FEWEST_VALUES = 3  # different numbers, from which on one function of all is no chance
MOST_AXES_NORMALISED = 4  # 15 sets of axes to take a norm over
LARGEST_COUNT = 5_000
WRITTEN = 1e-12  # so near to a fraction of such counts one number in 50,000 is by chance
AS_IT_IS = "as it is"
NORMALISED, SOFTMAX = "normalised", "softmax"
EXPONENTIAL = "the exponential of"
SHIFTED = frozenset(["1 plus it", "minus it"])
POINTWISE: Mapping[str, Callable[[Array], Array]] = {
    f"{EXPONENTIAL} it": np.exp,
    f"{EXPONENTIAL} minus it": lambda x: np.exp(-x),
    f"{EXPONENTIAL} half of it": lambda x: np.exp(x / 2),
    f"{EXPONENTIAL} twice it": lambda x: np.exp(2 * x),
    "softplus of it": lambda x: np.logaddexp(0.0, x),
    "sigmoid of it": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "tanh of it": np.tanh,
    "its square": np.square,
    "its absolute value": np.abs,
    "relu of it": lambda x: np.maximum(x, 0.0),
    "1 plus it": lambda x: 1.0 + x,
    "minus it": lambda x: -x,
}


class OfAWeight(NamedTuple):
    """What both sides' ops take that is made of a weight.

    Fields:
      name: of the variable.
      variable: as it was before the step, as the reference has it.
      reference: what the reference's op takes.
      candidate: what the port's takes, its axes in any order.
      lines: of source, the port's first, in words.
      gains: other variables that the op reads, each with a number for each place along an axis of this one.
    """

    name: str
    variable: Array
    reference: Array
    candidate: Array
    lines: str
    gains: Sequence[Array] = ()


class Made(NamedTuple):
    """Something that is made of a weight.

    Fields:
      kind: `NORMALISED`, `SOFTMAX`, or the function in words.
      axes: that it goes over.
      value: what it gives.
    """

    kind: str
    axes: tuple[int, ...]
    value: Array

    def words(self, shape: tuple[int, ...]) -> str:
        """What is done, of a weight of some shape."""
        over = " and ".join(f"axis {axis} of {shape[axis]}" for axis in self.axes)
        if self.kind == NORMALISED:
            return f"divides it by its norm over {over if len(self.axes) < len(shape) else 'all of it'}"
        if self.kind == SOFTMAX:
            return f"takes the softmax of it over {over}"
        return f"takes {'it ' if self.kind == AS_IT_IS else ''}{self.kind}"


def other_function(taken: OfAWeight) -> Cause | None:
    """Returns the cause where each side's op takes another function of the weight, both to rounding; None elsewhere.

    Args:
      taken: what both ops take.
    """
    weight = np.asarray(taken.variable, np.float64)
    if not np.isfinite(weight).all() or len(np.unique(weight.reshape(-1)[: 1 << 16])) < FEWEST_VALUES:
        return None
    # The op's other inputs differ, or its own rule does: not what is made of the weight.
    if _is(taken.reference, taken.candidate):
        return None
    made = list(_made(weight, taken.gains))
    # In the order of `_made`: of what gives the same numbers the plainest is what was meant.
    own = next((each for each in made if _is(taken.reference, each.value)), None)
    other = next((each for each in made if _is(taken.candidate, each.value)), None)
    if own is None or other is None:
        return _masked(taken, weight) or _scaled(taken, own)
    if own.kind == other.kind and own.axes == other.axes:
        return None  # laid out otherwise: what is made of it is the same
    name = _name(own, other)
    shape = weight.shape
    return build_cause(
        name,
        "weight",
        evidence=f"so made of {taken.name}, {weight.size:,} numbers are what each side's op takes, to rounding",
        weight=taken.name,
        there=other.words(shape),
        here=own.words(shape),
        lines=taken.lines,
    )


def _name(own: Made, other: Made) -> str:
    kinds = {own.kind, other.kind}
    if len(kinds) == 1:
        return {NORMALISED: "normalised_axis", SOFTMAX: "softmax_axis"}.get(
            own.kind, OTHER_OPERATION
        )  # by another gain
    if NORMALISED in kinds:
        return "normalisation"
    if all(kind.startswith(EXPONENTIAL) for kind in kinds):
        return "scale"
    return OTHER_OPERATION if kinds & SHIFTED else "activation_function"


def _masked(taken: OfAWeight, weight: Array) -> Cause | None:
    """Both sides' ops take some of the weight's numbers and zeros in the place of the others, and not of the same ones.

    Args:
      taken: what both ops take.
      weight: the variable.
    """
    own, other = (_kept(weight, each) for each in (taken.reference, taken.candidate))
    if own is None or other is None or np.array_equal(own, other):
        return None
    there, here = (f"keeps {np.count_nonzero(each):,} of its {each.size:,} numbers" for each in (other, own))
    return build_cause(
        "mask",
        "weight",
        evidence=f"what each side's op takes are numbers of {taken.name} and zeros, to rounding; "
        f"{np.count_nonzero(own != other):,} of {own.size:,} are kept on one side only",
        weight=taken.name,
        there=there,
        here=here,
        lines=taken.lines,
    )


def _kept(weight: Array, made: Array) -> Array | None:
    """Which numbers of a weight stand in an array that has zeros elsewhere, in the weight's layout; None where others do."""
    for turned in layouts(np.asarray(made, np.float64), weight.shape):
        kept = turned != 0.0
        if kept.any() and norm(turned - np.where(kept, weight, 0.0)) <= CLOSE * norm(turned):
            return np.asarray(kept | (weight == 0.0))
    return None


def _scaled(taken: OfAWeight, own: Made | None) -> Cause | None:
    """What the port takes is what the reference takes, multiplied by a number that somebody wrote.

    Args:
      taken: what both ops take.
      own: what the reference's is, where that is known.
    """
    size = norm(taken.reference)
    # |candidate| over |reference| is the only size that a common factor can have; its sign is tried below.
    ratio = norm(taken.candidate) / size if size else 0.0
    # A factor that was computed, as of a norm, is no short fraction: then it is the op that is another.
    for factor in (ratio, -ratio) if is_written(ratio) else ():
        if _is(taken.candidate, factor * np.asarray(taken.reference, np.float64)):
            name = "extra_scale" if own is not None and own.kind == AS_IT_IS else "scale"
            return build_cause(
                name,
                "factor of a weight",
                evidence=f"so multiplied, the {taken.reference.size:,} numbers that the reference's op takes are "
                "what the port's op "
                "takes, to rounding",
                weight=taken.name,
                factor=factor,
                lines=taken.lines,
            )
    return None


def is_written(factor: float) -> bool:
    """Returns whether a factor is one count over another, or the root of such: one that is computed of weights is not.

    Args:
      factor: positive.
    """
    if not np.isfinite(factor) or factor <= 0.0:
        return False
    # Its square too, and 1 over that: sqrt(2 / n) and 1 / sqrt(n) are written as often as fractions are.
    squares = (factor**2, factor**-2)
    return any(abs(float(Fraction(each).limit_denominator(LARGEST_COUNT)) / each - 1.0) <= WRITTEN for each in squares)


def _is(one: Array, other: Array) -> bool:
    """Whether two arrays are the same, whatever the order of axes, and all of them finite."""
    return bool(np.isfinite(one).all() and np.isfinite(other).all()) and same_in_some_layout(one, other, CLOSE)


def _made(weight: Array, gains: Sequence[Array]) -> Iterator[Made]:
    """Yields what people make of a weight, the simplest first, then that times a number for each place along an axis."""
    plain = list(_functions(weight))
    yield from plain
    # g v / |v|: weight normalisation has a gain for each place along one axis.
    axes = range(weight.ndim) if weight.ndim <= MOST_AXES_NORMALISED else ()
    for gain, axis in ((gain, axis) for gain in gains for axis in axes if gain.shape == (weight.shape[axis],)):
        # Size 1 along all other axes: one gain for each place along this one.
        along = gain.reshape([-1 if each == axis else 1 for each in range(weight.ndim)])
        yield from (each._replace(value=each.value * along) for each in plain if each.kind in (AS_IT_IS, NORMALISED))


def _functions(weight: Array) -> Iterator[Made]:
    yield Made(AS_IT_IS, (), weight)
    axes = range(weight.ndim) if weight.ndim <= MOST_AXES_NORMALISED else ()
    for over in chain.from_iterable(combinations(axes, count) for count in range(1, weight.ndim + 1)):
        # As many axes as the weight, of size 1 along `over`.
        size = np.sqrt(np.square(weight).sum(over, keepdims=True))
        # Of axes of one element a norm is the size of each number, and leaves the signs alone.
        if size.all() and all(weight.shape[axis] > 1 for axis in over):
            yield Made(NORMALISED, over, weight / size)
    yield from (Made(SOFTMAX, (axis,), softmax(weight, axis)) for axis in axes if weight.shape[axis] > 1)
    with np.errstate(all="ignore"):
        for words, function in POINTWISE.items():
            yield Made(words, (), function(weight))
