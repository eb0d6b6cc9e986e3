"""Computes one layer again, from what goes into it, by other rules: which of them gives what the candidate has?

For a layer whose inputs and weights are the same on both sides. A rule is named only where it gives the candidate's output
down to rounding, and the reference's own rule, computed the same way, gives the reference's.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from parity.causes.evidence import CLOSE, LEFT, common_factor
from parity.causes.functions import FUNCTIONS
from parity.judge.numbers import Array, norm
from parity.judge.result import Cause

SLOPES = (0.01, 0.1, 0.2, 0.3)
ALL_ONE = 1e-6
TELLING = 8  # values that have to differ before a rule is believed
LEAST_EPSILON = 1e-9  # of what it is added to: less is rounding

Rule = Callable[[Array], Array]


class Layer(NamedTuple):
    """A layer whose output differs, though its inputs and weights do not.

    Fields:
      name: of the layer.
      kind: of the reference's op, e.g. "Relu".
      inputs: what goes into it.
      reference, candidate: what comes out, in one layout, channels last.
      variables: dict of name to value of the weights in its scope.
      statistics: the same of the moving statistics.
    """

    name: str
    kind: str
    inputs: Sequence[Array]
    reference: Array
    candidate: Array
    variables: Mapping[str, Array]
    statistics: Mapping[str, Array]


def other_rule(layer: Layer) -> Cause | None:
    """Returns the cause where another rule gives the candidate's output, or None."""
    if (layer.reference != layer.candidate).sum() < TELLING:
        return None
    for given in layer.inputs:
        if given.size != layer.reference.size:
            continue
        x = np.asarray(given, np.float64).reshape(layer.reference.shape)
        for rule in (_activation, _softmax, _normalised):
            cause = rule(layer, x)
            if cause is not None:
                return cause
    return None


def extra_op(layer: str, calls: str, before: Array, after: Array) -> Cause | None:
    """Returns the cause where the candidate does something to what goes into a layer that the reference does not.

    Args:
      layer: its name.
      calls: the candidate's function.
      before: what it takes, which the reference has too and gives to the layer as it is.
      after: what it makes of it.
    """
    what = f"what goes into {layer} passes {calls} in the candidate, and goes in as it is in the reference"
    for name, function in _functions():
        if name != "no activation" and _gives(function, before, after):
            text = f"{name} of it is what {calls} gives, to the last digits"
            return Cause(
                "activation_function", f"{what}: a {name}", text, "use the activation of the graph on both sides"
            )
    kept, dropped = (after != 0.0) & (before != 0.0), (after == 0.0) & (before != 0.0)
    factor = common_factor([(before[kept], after[kept])]) if kept.any() else None
    if factor is None or factor == 1.0:
        return None
    if dropped.sum() >= 2 and factor > 1.0:
        text = f"{int(dropped.sum())} of {int(dropped.sum() + kept.sum())} values are dropped, the others {factor:.6g} times"
        fix = "switch it off on both sides, or record the masks and replay them"
        return Cause("dropout_active", f"dropout is active in the candidate only, in front of {layer}", text, fix)
    text = f"every value that {calls} gives is {factor:.9g} times what it takes, to the last digits"
    return Cause(
        "extra_scale", f"{what}: multiplied by {factor:.6g}", text, "scale what goes into it as the graph does"
    )


def _activation(layer: Layer, x: Array) -> Cause | None:
    for name, function in _functions():
        if not _gives(function, x, layer.reference):
            continue
        for other, rule in _functions():
            if other != name and _explains(rule(x), layer):
                return Cause(
                    "activation_function",
                    f"{layer.name} goes through {other} in the candidate, through {name} in the reference",
                    f"{other} of what goes in, which is the same on both sides, gives the candidate's output to the last "
                    f"digits, {name} the reference's",
                    "use the activation of the graph on both sides",
                )
    return None


def _functions() -> Iterator[tuple[str, Rule]]:
    yield from FUNCTIONS.items()
    for slope in SLOPES:
        yield f"leaky ReLU of slope {slope:g}", lambda x, slope=slope: np.where(x > 0, x, slope * x)  # type: ignore[misc]


def _softmax(layer: Layer, x: Array) -> Cause | None:
    axis = next((axis for axis in range(x.ndim) if _gives(lambda x, a=axis: _soft(x, a), x, layer.reference)), None)  # type: ignore[misc]
    if axis is None:
        return None
    for other in range(x.ndim):
        if other != axis and _explains(_soft(x, other), layer):
            return Cause(
                "softmax_axis",
                f"the softmax of {layer.name} goes over axis {other} in the candidate, over axis {axis} in the reference",
                f"what goes in is the same; taken over axis {other} it gives the candidate's output to the last digits",
                "name the axis of the graph: dim=-1 where tf.nn.softmax has none",
            )
    factor = _temperature(x, layer.candidate, axis)
    if factor is not None and _explains(_soft(factor * x, axis), layer):
        return Cause(
            "softmax_scale",
            f"what goes into the softmax of {layer.name} is multiplied by {factor:.6g} in the candidate",
            f"the softmax of {factor:.9g} times the reference's scores gives the candidate's output to the last digits",
            "divide the scores once, by the square root of the size of a head where the graph does",
        )
    return None


def _temperature(x: Array, probabilities: Array, axis: int) -> float | None:
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(probabilities)
    seen = np.isfinite(logs) & np.isfinite(x) & (x > -1e6)
    first = x - x.max(axis=axis, keepdims=True)
    apart = logs - np.where(np.isfinite(logs), logs, -np.inf).max(axis=axis, keepdims=True)
    seen &= first < -1e-6
    if seen.sum() < TELLING or not np.isfinite(apart[seen]).all():
        return None
    factors = apart[seen] / first[seen]
    factor = float(np.median(factors))
    return factor if np.abs(factors - factor).max() <= ALL_ONE * abs(factor) else None


def _normalised(layer: Layer, x: Array) -> Cause | None:
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


def _soft(x: Array, axis: int) -> Array:
    with np.errstate(invalid="ignore", over="ignore"):
        raised = np.exp(x - x.max(axis=axis, keepdims=True))
        return np.asarray(raised / raised.sum(axis=axis, keepdims=True))


def _gives(rule: Rule, x: Array, wanted: Array) -> bool:
    with np.errstate(all="ignore"):
        return bool(norm(rule(x) - wanted) <= CLOSE * norm(wanted))


def _explains(made: Array, layer: Layer) -> bool:
    left, apart = norm(made - layer.candidate), norm(layer.reference - layer.candidate)
    return bool(left <= LEFT * apart and left <= CLOSE * norm(layer.candidate))
