"""Other rules of softmax, batch norm and layer norm: axes, scores of another scale, what is divided by."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from parity.diagnose.agreement import CLOSE, rounds_to_one, same_values
from parity.diagnose.catalogue import build_cause
from parity.diagnose.layers.rules import ALL_ONE, Layer, Rule, explains_all, gives, number
from parity.diagnose.ops.activations import softmax
from parity.judge.metrics import norm
from parity.judge.result import Cause
from parity.trace.arrays import Array

FEWEST_PROBABILITIES = 8  # probabilities that have to differ before a scale is believed
LEAST_LOG = -600.0  # of a probability: less is zero but for rounding


def softmax_axis(layer: Layer, x: Array) -> Cause | None:
    """The softmax goes over another axis."""
    # The axis that gives the reference's output: only then does another axis say what differs.
    axis = next((axis for axis in range(x.ndim) if gives(lambda x, a=axis: softmax(x, a), x, layer.reference)), None)  # type: ignore[misc]
    for other in range(x.ndim) if axis is not None else ():
        if other != axis and explains_all(softmax(x, other), layer):
            return build_cause(
                "softmax_axis",
                evidence=f"what goes in is the same; taken over axis {other} it gives the candidate's output to "
                "the last digits",
                layer=layer.name,
                other=other,
                axis=axis,
            )
    return None


def softmax_scale(layer: Layer) -> Cause | None:
    """The candidate's probabilities are the reference's to a power: their logarithms are off by one factor."""
    # Either side's probabilities add up to 1 along it, to 1e-9: elsewhere powers of them are no softmax.
    axes = [axis for axis in range(layer.reference.ndim) if _sums_to_one(layer, axis)]
    for axis in axes:
        factor = _temperature(layer.reference, layer.candidate, axis)
        if (
            factor is not None
            and not rounds_to_one(factor)
            and explains_all(_raised(layer.reference, factor, axis), layer)
        ):
            return build_cause(
                "softmax_scale",
                evidence=f"the logarithms of all probabilities, each less its largest, are {factor:.9g} times the "
                "reference's",
                layer=layer.name,
                factor=number(factor),
            )
    return None


def _sums_to_one(layer: Layer, axis: int) -> bool:
    sums = [each.sum(axis=axis) for each in (layer.reference, layer.candidate)]
    positive = all((each >= 0).all() for each in (layer.reference, layer.candidate))
    # Softmax is never below 0; 1e-9, since each of up to thousands of summands rounds by u64 of itself.
    return positive and all(np.abs(each - 1).max() <= 1e-9 for each in sums)


def _temperature(reference: Array, candidate: Array, axis: int) -> float | None:
    # softmax(f s) = softmax(s)^f, normalised: log q_i - log q_k = f (log p_i - log p_k), k the largest of its row.
    largest = np.argmax(reference, axis=axis, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        one, other = np.log(reference), np.log(candidate)
        # e^-600 = 1e-261: not far below probabilities are flushed to 0, or to denormal numbers of few digits.
        seen = (one > LEAST_LOG) & (other > LEAST_LOG)
        one, other = (each - np.take_along_axis(each, largest, axis) for each in (one, other))
        # Only what lies below the largest by more than ALL_ONE: the quotient of two zeros says nothing.
        seen &= np.isfinite(one) & np.isfinite(other) & (one < -ALL_ONE)
    if seen.sum() < FEWEST_PROBABILITIES:
        return None
    factors = other[seen] / one[seen]
    # The median: of many quotients those of small logarithms are rough.
    factor = float(np.median(factors))
    # Judged as a difference of logarithms, |f_i - f| |log p_i|, so that rough quotients of small ones are not asked for
    # more.
    near = np.abs(factors - factor) * np.abs(one[seen]) <= CLOSE * (1 + np.abs(one[seen]))
    return factor if near.all() else None


def _raised(reference: Array, factor: float, axis: int) -> Array:
    """The softmax of scores that are a factor as large as those that give some probabilities."""
    with np.errstate(divide="ignore", invalid="ignore"):
        # log p is the scores less one number a row, which a softmax takes out again.
        return softmax(factor * np.log(reference), axis)


# Other rules of batch norm and layer norm: what the layer divides by, told from what goes in and what comes out.

LEAST_EPSILON = 1e-9  # of what it is added to: less is rounding
FEWEST_CHANNELS = 3  # channels, or examples, that tell an epsilon: one has some epsilon by any rule
BATCH = "batch norm"


def normalised(layer: Layer, x: Array) -> Cause | None:
    """A norm over the channels' examples (batch norm) or over each example's channels (layer norm): what it divides by."""
    # Batch norm: one channel over all examples and places. Layer norm: one place over its channels.
    for axes, what in ((tuple(range(x.ndim - 1)), BATCH), ((x.ndim - 1,), "layer norm")):
        given = _Given(layer, x, axes)
        # Every pair of vectors of the layer may be scale and shift; the cheap test comes before the full one.
        for gamma, beta in _affine(layer, x.shape[-1:]):
            cause = (
                _other_norm(layer, given, (gamma, beta), what) if given.may_be(layer.reference, gamma, beta) else None
            )
            if cause is not None:
                return cause
    return _other_axes(layer, x)


def _other_axes(layer: Layer, x: Array) -> Cause | None:
    """The cause where each side's output is a norm of what goes in, over other axes."""
    # Batch, instance, layer over channels, layer over all: the axes that the usual norms take mean and variance over.
    ways = {
        "the examples of each channel": tuple(range(x.ndim - 1)),
        "each example and channel": tuple(range(1, x.ndim - 1)),
        "the channels of each place": (x.ndim - 1,),
        "each example": tuple(range(1, x.ndim)),
    }
    axes = {words: each for words, each in ways.items() if each}
    # Vectors of other layers too, for a norm's own may be in another scope; none with a 0 to divide by.
    of_any = [pair for pair in layer.norms if pair[0].shape == x.shape[-1:] and pair[0].all()]
    for gamma, beta in [*_affine(layer, x.shape[-1:]), *of_any]:
        with np.errstate(all="ignore"):
            own, other = (
                # (y - beta) / gamma is the normed value itself, if these two are its scale and shift.
                [words for words, each in axes.items() if _is_norm(x, (y - beta) / gamma, each)]
                for y in (layer.reference, layer.candidate)
            )
        # None in common: where both sides' outputs fit one set of axes it is not the axes that differ.
        if own and other and not set(own) & set(other):
            return build_cause(
                "normalised_axis",
                evidence="what goes in is the same; less its mean and divided by the root of its variance and "
                "one epsilon, over "
                "these axes, it gives each side's output to the last digits",
                layer=layer.name,
                other=other[0],
                own=own[0],
            )
    return None


def _is_norm(x: Array, y: Array, axes: tuple[int, ...]) -> bool:
    # One element of every other axis first: most pairs of vectors fail there, for a fraction of the work.
    first: Any = tuple(slice(None) if axis in axes else slice(1) for axis in range(x.ndim))
    slope = _slope(x, y, axes) if _slope(x[first], y[first], axes) is not None else None
    # Normed values have mean 0 where the mean that was taken out is that of these axes.
    if slope is None or not (slope > 0).all() or norm(y.mean(axis=axes)) > CLOSE * norm(y):
        return False
    # slope = 1 / sqrt(variance + epsilon), solved for the epsilon, which must be one number.
    return _epsilon(1 / slope**2, x.var(axis=axes)) is not None


class _Norm(NamedTuple):
    # Names of what a norm subtracts and of what it divides by the root of, with the epsilon, and the output that this
    # makes.
    mean: str
    rule: str
    epsilon: float
    made: Array


def _affine(layer: Layer, shape: tuple[int, ...]) -> Iterator[tuple[Array, Array]]:
    """Yields what may be the scale and the shift behind a norm: two of the layer's own vectors, or none."""
    vectors = {name: value for name, value in layer.variables.items() if value.shape == shape}
    for name, gamma in [*vectors.items(), ("", np.ones(shape))]:
        for other, beta in [*vectors.items(), ("", np.zeros(shape))]:
            # One vector cannot be both; without a name it is the missing one, ones or zeros.
            if gamma.all() and (other != name or not name):
                yield gamma, beta


class _Given:
    """What goes into a norm, and what it may subtract and divide by."""

    def __init__(self, layer: Layer, x: Array, axes: tuple[int, ...]) -> None:
        self._x, self._axes, self._of_batch = x, axes, axes != (x.ndim - 1,)
        statistics = layer.statistics.items() if self._of_batch else ()
        # By name (channels,): what evaluation subtracts and divides by.
        self._moving = {name: value for name, value in statistics if value.shape == x.shape[-1:]}

    @cached_property
    def _rules(self) -> dict[str, Array]:
        # How many values a variance is over: n of the batch, n - 1 where it is unbiased.
        count = int(np.prod([self._x.shape[axis] for axis in self._axes]))
        own = self._x.var(axis=self._axes)
        words = "the variance of the batch" if self._of_batch else "the variance of each example"
        moving = {f"the moving statistic {name}": value for name, value in self._moving.items()}
        return {words: own, "the unbiased variance": own * (count / max(count - 1, 1)), **moving}

    @cached_property
    def _means(self) -> dict[str, Array]:
        return {"": self._x.mean(axis=self._axes), **self._moving}

    def may_be(self, y: Array, gamma: Array, beta: Array) -> bool:
        """Whether the first channel, or the first example, of an output allows that it is a norm's."""
        # (..., first channel) of a batch norm, (first example, ...) of a layer norm.
        place: Any = (..., slice(1)) if self._of_batch else slice(1)
        # The shift changes no slope of one channel; of a layer norm every channel has its own, so that it has to go
        # first.
        scaled = y[place] / gamma[:1] if self._of_batch else (y[place] - beta) / gamma
        return _slope(self._x[place], scaled, self._axes) is not None

    def norms(self, y: Array, gamma: Array, beta: Array) -> Iterator[_Norm]:
        """Yields the norms that divide by what an output shows to be divided by."""
        # (y - beta) / gamma = (x - mean) slope, whatever the mean: the slope needs no guess at it.
        slope = _slope(self._x, (y - beta) / gamma, self._axes)
        for rule, by in self._rules.items() if slope is not None else ():
            epsilon = _epsilon(1 / slope**2, by)  # type: ignore[operator]
            if epsilon is not None:
                root = np.expand_dims(np.sqrt(by + epsilon), self._axes)  # in x's axes, of size 1 where it goes over
                for name, mean in self._means.items():
                    made = (self._x - np.expand_dims(mean, self._axes)) / root * gamma + beta
                    yield _Norm(name, rule, epsilon, made)


def _other_norm(layer: Layer, given: _Given, affine: tuple[Array, Array], what: str) -> Cause | None:
    """The cause where one norm makes the reference's output, and one that divides by something else the candidate's."""
    with np.errstate(all="ignore"):
        own = next(
            (each for each in given.norms(layer.reference, *affine) if same_values(layer.reference, each.made)), None
        )
        for other in given.norms(layer.candidate, *affine) if own is not None else ():
            # Another mean by the same divisor would show as a shift, and is no other divisor.
            told = other.rule != own.rule or other.mean == own.mean  # type: ignore[union-attr]
            if told and explains_all(other.made, layer):
                return _cause(layer.name, what, own, other)  # type: ignore[arg-type]
    return None


def _cause(name: str, what: str, own: _Norm, other: _Norm) -> Cause:
    # One rule on both sides, so that the numbers differ by the epsilon alone.
    cause, variant = ("epsilon", "") if own.rule == other.rule else ("normalisation", "divisor")
    return build_cause(
        cause,
        variant,
        evidence="what goes in is the same; the square of what each side divides it by is that and the epsilon, in every "
        + ("channel" if what == BATCH else "example")
        + ", and so divided it gives each side's output to the last digits",
        what=what,
        name=name,
        rule=other.rule,
        epsilon=other.epsilon,
        own_rule=own.rule,
        own_epsilon=own.epsilon,
    )


def _slope(x: Array, y: Array, axes: tuple[int, ...]) -> Array | None:
    x0, y0 = x - x.mean(axis=axes, keepdims=True), y - y.mean(axis=axes, keepdims=True)
    # Constant over these axes, x tells no slope.
    square = (x0**2).sum(axis=axes)
    if not (square > 0).all():
        return None
    # The line of least squares through both means: slope = sum (x - mean x) (y - mean y) / sum (x - mean x)^2.
    slope = (x0 * y0).sum(axis=axes) / square
    left = y0 - np.expand_dims(slope, axes) * x0
    return np.asarray(slope) if norm(left) <= CLOSE * norm(y0) and (slope != 0).all() else None


def _epsilon(squared: Array, variance: Array) -> float | None:
    apart = squared - variance
    # Through one or two channels an epsilon can be read off whatever they were divided by.
    if apart.size < FEWEST_CHANNELS:
        return None
    # 1 / scale^2 = variance + epsilon in every channel: the same difference in all of them, and not below zero.
    epsilon = float(np.median(apart))
    scale = float(np.abs(squared).max())
    if np.abs(apart - epsilon).max() > LEAST_EPSILON * scale or epsilon < -LEAST_EPSILON * scale:
        return None
    return epsilon if epsilon > LEAST_EPSILON * scale else 0.0


def norms_behind(layer: Layer, shape: tuple[int, ...]) -> Iterator[Rule]:
    """The norms over each example's channels that the layers have, with the reference's epsilon."""
    if layer.output is None:
        return
    own = np.asarray(layer.output, np.float64).reshape(shape)
    last = (len(shape) - 1,)  # each example's channels
    for gamma, beta in layer.norms:
        slope = (
            _slope(own, (layer.reference - beta) / gamma, last) if gamma.shape == shape[-1:] and gamma.all() else None
        )
        epsilon = _epsilon(1 / slope**2, own.var(axis=last)) if slope is not None else None
        if epsilon is not None:
            yield lambda x, g=gamma, b=beta, e=epsilon: (  # type: ignore[misc]
                (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + e) * g + b
            )
