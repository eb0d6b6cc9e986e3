"""Other rules of a softmax: another axis, scores of another scale."""

import numpy as np

from parity.causes.evidence import CLOSE, rounds_to_one
from parity.causes.functions import softmax
from parity.causes.layer_rules import ALL_ONE, Layer, explains_all, gives, number
from parity.judge.metrics import Array
from parity.judge.result import Cause

TELLING = 8  # probabilities that have to differ before a scale is believed
LEAST_LOG = -600.0  # of a probability: less is zero but for rounding


def softmax_axis(layer: Layer, x: Array) -> Cause | None:
    """The softmax goes over another axis."""
    axis = next((axis for axis in range(x.ndim) if gives(lambda x, a=axis: softmax(x, a), x, layer.reference)), None)  # type: ignore[misc]
    for other in range(x.ndim) if axis is not None else ():
        if other != axis and explains_all(softmax(x, other), layer):
            return Cause(
                "softmax_axis",
                f"the softmax of {layer.name} goes over axis {other} in the candidate, over axis {axis} in the reference",
                f"what goes in is the same; taken over axis {other} it gives the candidate's output to the last digits",
                "name the axis of the graph: dim=-1 where tf.nn.softmax has none",
            )
    return None


def softmax_scale(layer: Layer) -> Cause | None:
    """The candidate's probabilities are the reference's to a power: their logarithms are off by one factor."""
    axes = [axis for axis in range(layer.reference.ndim) if _sums_to_one(layer, axis)]
    for axis in axes:
        factor = _temperature(layer.reference, layer.candidate, axis)
        if (
            factor is not None
            and not rounds_to_one(factor)
            and explains_all(_raised(layer.reference, factor, axis), layer)
        ):
            return Cause(
                "softmax_scale",
                f"what goes into the softmax of {layer.name} is {number(factor)} times as large in the candidate",
                f"the logarithms of all probabilities, each less its largest, are {factor:.9g} times the reference's",
                "divide the scores once, by the square root of the size of a head where the graph does",
            )
    return None


def _sums_to_one(layer: Layer, axis: int) -> bool:
    sums = [each.sum(axis=axis) for each in (layer.reference, layer.candidate)]
    positive = all((each >= 0).all() for each in (layer.reference, layer.candidate))
    return positive and all(np.abs(each - 1).max() <= 1e-9 for each in sums)


def _temperature(reference: Array, candidate: Array, axis: int) -> float | None:
    largest = np.argmax(reference, axis=axis, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        one, other = np.log(reference), np.log(candidate)
        seen = (one > LEAST_LOG) & (other > LEAST_LOG)
        one, other = (each - np.take_along_axis(each, largest, axis) for each in (one, other))
        seen &= np.isfinite(one) & np.isfinite(other) & (one < -ALL_ONE)
    if seen.sum() < TELLING:
        return None
    factors = other[seen] / one[seen]
    factor = float(np.median(factors))
    near = np.abs(factors - factor) * np.abs(one[seen]) <= CLOSE * (1 + np.abs(one[seen]))
    return factor if near.all() else None


def _raised(reference: Array, factor: float, axis: int) -> Array:
    """The softmax of scores that are a factor as large as those that give some probabilities."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return softmax(factor * np.log(reference), axis)
