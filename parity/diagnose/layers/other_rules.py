"""Computes an op again by other rules, and looks for what comes out among everything that the candidate makes.

For the op of the reference at which two forward passes part. Nothing has to be paired for that: a rule is named where the
reference's own, of the same family, gives what the reference has, and the other one gives, in whatever order of axes, an
output of the candidate that the reference never has.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from parity.diagnose.agreement import CLOSE
from parity.diagnose.catalogue import build_cause
from parity.diagnose.layers.rules import functions
from parity.diagnose.ops.resize import resized
from parity.judge.metrics import norm
from parity.judge.result import Cause
from parity.trace.arrays import Array

FEWEST_NUMBERS = 8  # numbers that an output has to have before it counts as the same
# Between numbers in order, relative to each and to the median size: `CLOSE`, element by element, so that a few large
# numbers do not hide that small ones differ.
CLOSE_NUMBER = 1e-9


class Op(NamedTuple):
    """An op whose output differs, though what it takes does not.

    Fields:
      name: of its layer.
      inputs: what it takes.
      outputs: of the reference, its own and those that come right behind it.
      beyond: outputs of the candidate that the reference never has.
    """

    name: str
    inputs: Sequence[Array]
    outputs: Sequence[Array]
    beyond: Sequence[Array]


class Way(NamedTuple):
    """A rule in words, and what it gives."""

    words: str
    made: Array


Ordered = Mapping[int, list[Array]]
Family = Callable[[Op], Iterator[list[Way]]]


def other_way(op: Op) -> Cause | None:
    """Returns the cause where another rule gives an output of the candidate, or None."""
    if not op.beyond:
        return None
    # Sorted once: dozens of rules are compared with each of these outputs.
    beyond = _ordered(op.beyond)
    for name, family in RULE_FAMILIES:
        for ways in family(op):
            # The first way that gives an output of the reference is its rule; the same family then holds the port's.
            own = next((way for way in ways if any(_equal(way.made, each) for each in op.outputs)), None)
            if own is None:
                continue
            others = (way for way in ways if way.words != own.words)  # of one rule some show another form
            other = next((way for way in others if _is_held(way.made, own.made, beyond)), None)
            if other is None:
                continue
            return build_cause(
                name,
                "rule",
                evidence="computed so from what goes in, which is the same on both sides, it gives an output of "
                "the candidate, and "
                "the reference's rule the reference's, to the last digits",
                layer=op.name,
                other=other.words,
                own=own.words,
            )
    return None


def is_held(made: Array, beyond: Sequence[Array]) -> bool:
    """Returns whether one of some outputs holds the same numbers, in whatever order."""
    return _is_among(made, _ordered(beyond))


def _ordered(outputs: Sequence[Array]) -> Ordered:
    """Returns the numbers of outputs in order, once for all rules that are tried, by their count."""
    found: dict[int, list[Array]] = defaultdict(list)
    for each in outputs:
        if each.size >= FEWEST_NUMBERS and np.isfinite(each).all():
            found[each.size].append(np.sort(np.asarray(each, np.float64), axis=None))
    return found


def _is_among(made: Array, outputs: Ordered) -> bool:
    if made.size not in outputs:
        return False
    # Of a constant any reduction is that constant.
    if made.size < FEWEST_NUMBERS or not np.isfinite(made).all() or np.ptp(made) == 0.0:
        return False
    # Both in order: a permutation of axes or places moves numbers, and changes none of the order statistics.
    # float64, (numbers,) in order.
    ordered = np.sort(made, axis=None)
    # The median size beside each number's own: near 0 a number is known to no more than its neighbours.
    size = float(np.median(np.abs(ordered)))
    return any((np.abs(each - ordered) <= CLOSE_NUMBER * (np.abs(ordered) + size)).all() for each in outputs[made.size])


def _is_held(made: Array, own: Array, beyond: Ordered) -> bool:
    # What the reference's own rule gives as well, in another order, does not tell which of the two it is.
    return _is_among(made, beyond) and not is_held(made, [own])


def _equal(made: Array, wanted: Array) -> bool:
    if made.size != wanted.size or made.size < FEWEST_NUMBERS or not np.isfinite(made).all():
        return False
    one, other = made.reshape(-1), np.asarray(wanted, np.float64).reshape(-1)
    return bool(norm(one - other) <= CLOSE * norm(other) < math.inf)


def _reductions(op: Op) -> Iterator[list[Way]]:
    for x in op.inputs:
        if 1 < x.ndim <= 4:  # 15 sets of four axes at most
            # One family over all axes: a sum over one and a mean over another are each other's alternatives.
            yield [way for axes in _subsets(x.ndim) for way in _reduced(x, axes)]


def _subsets(count: int) -> Iterator[tuple[int, ...]]:
    for size in range(1, count + 1):
        yield from combinations(range(count), size)


def _reduced(x: Array, axes: tuple[int, ...]) -> Iterator[Way]:
    over = f"over axis {', '.join(map(str, axes))}"
    yield Way(f"the sum {over}", x.sum(axis=axes))
    yield Way(f"the mean {over}", x.mean(axis=axes))
    yield Way(f"the largest {over}", x.max(axis=axes))
    yield Way(f"the smallest {over}", x.min(axis=axes))


def _spreads(op: Op) -> Iterator[list[Way]]:
    """How far values lie apart: `torch.var` and `std` divide by n - 1 unless asked otherwise, TensorFlow's by n."""
    for x in op.inputs:
        if 1 < x.ndim <= 4:
            ways = [_spread(x, axes) for axes in _subsets(x.ndim)]
            # Like beside like: a graph makes the standard deviation of the variance, and has both.
            # Places 0 to 3 of each: variance and deviation by n, variance and deviation by n - 1.
            for chosen in ((1, 3), (0, 2), (0, 1)):
                yield [each[place] for each in ways if each for place in chosen]


def _spread(x: Array, axes: tuple[int, ...]) -> list[Way]:
    found, square, count = list[Way](), x.var(axis=axes), math.prod(x.shape[axis] for axis in axes)
    for by, of in (("n", count), ("n - 1", count - 1)) if count > 1 else ():
        # x.var is over n: times n / (n - 1) it is the unbiased one.
        made, over = square * (count / of), f"over axis {', '.join(map(str, axes))} (divided by {by})"
        found += [Way(f"the variance {over}", made), Way(f"the standard deviation {over}", np.sqrt(made))]
    return found


def _norms(op: Op) -> Iterator[list[Way]]:
    """Each vector over its length: an epsilon of the length that rounding does not hide is another rule."""
    for x in op.inputs:
        if 1 < x.ndim <= 4:
            ways = []
            for axes in _subsets(x.ndim):
                # Size 1 along the axes summed over, so that it divides x as it is.
                length = np.sqrt((x**2).sum(axis=axes, keepdims=True))
                over = f"the length over axis {', '.join(map(str, axes))} as what to divide by"
                # A vector of zeros has no direction.
                if (length > 0.0).all():
                    ways += [Way(over, x / length), Way(over, length.reshape(-1) ** 2), Way(over, length.reshape(-1))]
            yield ways


def _activations(op: Op) -> Iterator[list[Way]]:
    for x in op.inputs:
        with np.errstate(all="ignore"):
            yield [Way(name, np.asarray(function(x))) for name, function in functions()]


def _halves(op: Op) -> Iterator[list[Way]]:
    for x in op.inputs:
        for axis in range(1, x.ndim):
            if x.shape[axis] % 2:
                continue  # an odd number of channels has no halves
            ways = []
            one, other = np.split(x, 2, axis=axis)
            even, odd = (x.take(range(start, x.shape[axis], 2), axis=axis) for start in (0, 1))
            for a, b, words in (
                (one, other, "the first half as values and the second as their gate"),
                (other, one, "the second half as values and the first as their gate"),
                (even, odd, "the even channels as values and the odd ones as their gate"),
                (odd, even, "the odd channels as values and the even ones as their gate"),
            ):
                # A value times the sigmoid of its gate, as GLU has it, or times its tanh; the clip keeps exp finite.
                ways += [Way(words, a / (1 + np.exp(-np.clip(b, -500, 500)))), Way(words, a * np.tanh(b))]
            yield ways


def _products(op: Op) -> Iterator[list[Way]]:
    for one, other in combinations(op.inputs, 2):
        # Batches of matrices: all axes but the last two have to agree.
        if one.ndim < 2 or other.ndim != one.ndim or one.shape[:-2] != other.shape[:-2]:
            continue
        ways = []
        for a, b, order in ((one, other, "as they are"), (other, one, "exchanged")):
            for left, right, words in (
                (a, b, f"both factors {order}"),
                (a, b.swapaxes(-1, -2), f"the factors {order}, the second transposed"),
                (a.swapaxes(-1, -2), b, f"the factors {order}, the first transposed"),
            ):
                if left.shape[-1] == right.shape[-2]:
                    ways.append(Way(words, left @ right))
        yield ways


def _resizes(op: Op) -> Iterator[list[Way]]:
    for x in op.inputs:
        # [::3], examples and channels, are kept; rows and columns become the output's.
        sizes = {tuple(y.shape[1:3]) for y in op.outputs if x.ndim == y.ndim == 4 and y.shape[::3] == x.shape[::3]}
        for size in sizes - {x.shape[1:3]}:
            yield [Way(words, made) for words, made in resized(x, size)]


RULE_FAMILIES: tuple[tuple[str, Family], ...] = (
    ("resizing", _resizes),
    ("activation_function", _activations),
    ("reduction", _reductions),
    ("normalisation", _spreads),  # what nearly all variances are taken for
    ("normalised_axis", _norms),
    ("gate_halves", _halves),
    ("transposed_product", _products),
)
