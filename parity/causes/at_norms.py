"""Other rules of batch norm and layer norm: what the layer divides by, told from what goes in and what comes out."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from parity.causes.evidence import CLOSE
from parity.causes.layer_rules import Layer, Rule
from parity.judge.numbers import Array, norm
from parity.judge.result import Cause

LEAST_EPSILON = 1e-9  # of what it is added to: less is rounding


def normalised(layer: Layer, x: Array) -> Cause | None:
    """A norm over the channels' examples (batch norm) or over each example's channels (layer norm): what it divides by."""
    for axes, what in ((tuple(range(x.ndim - 1)), "batch norm"), ((x.ndim - 1,), "layer norm")):
        wanted, got = _divided(layer, x, axes, layer.reference), _divided(layer, x, axes, layer.candidate)
        if wanted is None or got is None:
            continue
        cause = _of_the_norm(layer, x, axes, what, wanted, got)
        if cause is not None:
            return cause
    return None


class _Norm(NamedTuple):
    # What a norm divides by, squared, by channel or by example.
    squared: Array
    gamma: str


def _divided(layer: Layer, x: Array, axes: tuple[int, ...], y: Array) -> _Norm | None:
    """What y divides x by, squared, taken as ``(x - m) / sqrt(s) * gamma + beta`` with one of the layer's own gammas."""
    scales = [(name, value) for name, value in layer.variables.items() if value.shape == x.shape[-1:] and value.all()]
    for name, gamma in scales:
        plain = y / gamma if axes != (x.ndim - 1,) else None
        slope = _slope(x, plain, axes) if plain is not None else _row_slope(x, y, gamma, layer, name)
        if slope is not None:
            return _Norm(1 / slope**2, name)
    return None


def _slope(x: Array, y: Array, axes: tuple[int, ...]) -> Array | None:
    x0, y0 = x - x.mean(axis=axes, keepdims=True), y - y.mean(axis=axes, keepdims=True)
    square = (x0**2).sum(axis=axes)
    if not (square > 0).all():
        return None
    slope = (x0 * y0).sum(axis=axes) / square
    left = y0 - np.expand_dims(slope, axes) * x0
    return np.asarray(slope) if norm(left) <= CLOSE * norm(y0) and (slope != 0).all() else None


def _row_slope(x: Array, y: Array, gamma: Array, layer: Layer, name: str) -> Array | None:
    for other, beta in layer.variables.items():
        if other != name and beta.shape == gamma.shape:
            slope = _slope(x, (y - beta) / gamma, (x.ndim - 1,))
            if slope is not None:
                return slope
    return None


def _of_the_norm(layer: Layer, x: Array, axes: tuple[int, ...], what: str, wanted: _Norm, got: _Norm) -> Cause | None:
    count = int(np.prod([x.shape[axis] for axis in axes]))
    own = x.var(axis=axes)
    rules = {"the variance of the batch": own, "the unbiased variance": own * (count / max(count - 1, 1))}
    if what == "layer norm":
        rules = {"the variance of each example": own, "the unbiased variance": rules["the unbiased variance"]}
    else:
        rules.update(
            (f"the moving statistic {name}", v) for name, v in layer.statistics.items() if v.shape == own.shape
        )
    known = {rule: (_epsilon(wanted.squared, by), _epsilon(got.squared, by)) for rule, by in rules.items()}
    reference = next(((rule, pair[0]) for rule, pair in known.items() if pair[0] is not None), None)
    candidate = next(((rule, pair[1]) for rule, pair in known.items() if pair[1] is not None), None)
    if reference is None or candidate is None or (reference[0] == candidate[0] and reference[1] == candidate[1]):
        return None
    return Cause(
        "epsilon" if reference[0] == candidate[0] else "normalisation",
        f"the {what} {layer.name} divides by {candidate[0]} and the epsilon {candidate[1]:.6g} in the candidate, by "
        f"{reference[0]} and {reference[1]:.6g} in the reference",
        "what goes in is the same; the square of what each side divides it by is that and the epsilon, in every "
        + ("channel" if what == "batch norm" else "example"),
        "epsilon and statistics as in the graph: tf.layers.batch_normalization has 1e-3, torch 1e-5",
    )


def _epsilon(squared: Array, variance: Array) -> float | None:
    apart = squared - variance
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
    last = (len(shape) - 1,)
    for gamma, beta in layer.norms:
        slope = (
            _slope(own, (layer.reference - beta) / gamma, last) if gamma.shape == shape[-1:] and gamma.all() else None
        )
        epsilon = _epsilon(1 / slope**2, own.var(axis=last)) if slope is not None else None
        if epsilon is not None:
            yield lambda x, g=gamma, b=beta, e=epsilon: (  # type: ignore[misc]
                (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + e) * g + b
            )
