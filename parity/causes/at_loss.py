"""Computes a loss again from what goes into it, by other rules: reductions, weights, smoothed labels, the softmax twice.

For towers whose layers are all the same. A rule is named only where it gives the candidate's loss down to rounding, and
the reference's own rule, computed the same way, the reference's; of a loss with further terms, such as decay, where the
difference of the two rules is the difference of the losses.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from parity.causes.evidence import LEFT
from parity.judge.numbers import Array
from parity.judge.result import Cause


class Loss(NamedTuple):
    """The loss of one tower.

    Fields:
      outputs: dict of name to what the layers give it, the same on both sides.
      feeds: dict of name to the tower's inputs.
      reference, candidate: the losses.
      close: how near losses are that count as one, relative.
    """

    outputs: Mapping[str, Array]
    feeds: Mapping[str, Array]
    reference: float
    candidate: float
    close: float


class _Rule(NamedTuple):
    # A way to compute a loss: what of each example, and how they become one number.
    each: str
    reduced: str
    value: float

    @property
    def words(self) -> str:
        return f"{self.reduced} of {self.each}"


def other_loss(loss: Loss) -> Cause | None:
    """Returns the cause where another rule gives the candidate's loss, or None."""
    apart = loss.candidate - loss.reference
    rules = list(_rules(loss))
    near = loss.close * max(abs(loss.reference), abs(loss.candidate))
    exact = [rule for rule in rules if abs(rule.value - loss.reference) <= near]
    for own in exact or rules:
        allowed = min(near, LEFT * abs(apart))
        for rule in rules:
            if rule.words != own.words and abs(rule.value - own.value - apart) <= allowed:
                return _cause(own, rule, bool(exact))
    return None


def _cause(own: _Rule, rule: _Rule, exact: bool) -> Cause:
    what = f"{rule.words} in the candidate, {own.words} in the reference"
    rest = "" if exact else ", but for terms that both sides have"
    name = "loss_reduction" if rule.each == own.each else "cross_entropy"
    fix = (
        "reduce the loss as the graph does, with its weights"
        if rule.each == own.each
        else "give the port the graph's loss"
    )
    evidence = f"computed from what goes into it, which is the same on both sides, these are the two losses{rest}"
    return Cause(name, f"the loss is {what}", evidence, fix)


def _rules(loss: Loss) -> Iterator[_Rule]:
    for each, values, labels in _of_each(loss):
        for reduced, value in _reduced(values, labels, loss.feeds):
            if np.isfinite(value):
                yield _Rule(each, reduced, value)


def _of_each(loss: Loss) -> Iterator[tuple[str, Array, Array]]:
    """Yields what becomes of each example: words, ``[examples]`` or more, and the labels."""
    for name, output in loss.outputs.items():
        if output.size > 1:
            yield f"what {name} gives", output, np.zeros(0)
        for label, given in loss.feeds.items():
            y = np.asarray(given)
            if y.dtype.kind in "iu" and output.ndim >= 2 and output.size == y.size * output.shape[-1]:
                yield from _cross_entropies(f"{name} and {label}", output.reshape(-1, output.shape[-1]), y)
            if y.size == output.size:
                yield from _elementwise(f"{name} and {label}", np.asarray(output).reshape(y.shape), y)


def _cross_entropies(of: str, logits: Array, y: Array) -> Iterator[tuple[str, Array, Array]]:
    labels = y.reshape(-1)
    if labels.min() < 0 or labels.max() >= logits.shape[1]:
        return
    logp = _log_softmax(logits)
    own, uniform = -logp[np.arange(len(labels)), labels], -logp.mean(axis=1)
    yield f"the softmax cross entropy of {of}", own.reshape(y.shape), y
    for share in (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3):
        smoothed = (1 - share) * own + share * uniform
        yield f"the cross entropy of {of} with labels smoothed by {share:g}", smoothed.reshape(y.shape), y
    twice = -_log_softmax(np.exp(logp))[np.arange(len(labels)), labels]
    yield f"the cross entropy of {of} with the softmax taken twice", twice.reshape(y.shape), y


def _elementwise(of: str, x: Array, y: Array) -> Iterator[tuple[str, Array, Array]]:
    t = y.astype(np.float64)
    difference = x - t
    if ((t >= 0) & (t <= 1)).all():
        crossed = np.maximum(x, 0) - x * t + np.log1p(np.exp(-np.abs(x)))
        yield f"the sigmoid cross entropy of {of}", crossed, y
    yield f"the squared difference of {of}", difference**2, y
    yield f"half the squared difference of {of}", difference**2 / 2, y
    yield f"the absolute difference of {of}", np.abs(difference), y
    small = np.abs(difference) <= 1
    yield f"the Huber loss of {of}", np.where(small, difference**2 / 2, np.abs(difference) - 0.5), y


def _reduced(values: Array, labels: Array, feeds: Mapping[str, Array]) -> Iterator[tuple[str, float]]:
    yield "the mean", float(values.mean())
    yield "the sum", float(values.sum())
    if values.ndim > 1:
        yield "the sum over each example, averaged over the examples,", float(values.sum() / len(values))
    if labels.dtype.kind in "iu" and labels.size == values.size:
        yield from _weighted(values, labels != 0, "labels that are not 0")
    for name, given in feeds.items():
        if given.size == values.size and given is not labels and given.dtype.kind in "fiub":
            shaped = values.reshape(given.shape)  # of a batch of sequences rather than of all their steps in a row
            yield from _weighted(shaped, np.asarray(given, np.float64), name)
        elif values.ndim == 2 and given.shape == values.shape[:1] and given.dtype.kind in "iu":
            within = np.arange(values.shape[1]) < given[:, None]
            yield from _weighted(values, within, f"what lies within {name}")


def _weighted(values: Array, weights: Array, name: str) -> Iterator[tuple[str, float]]:
    w = np.asarray(weights, np.float64)
    total = float((values * w).sum())
    ways: dict[str, Callable[[], float]] = {
        f"the mean, weighted by {name},": lambda: total / float(w.sum()),
        f"the sum, weighted by {name}, over all": lambda: total / values.size,
        f"the sum, weighted by {name},": lambda: total,
        f"the sum, weighted by {name}, over those with a weight,": lambda: total / float((w != 0).sum()),
    }
    if values.ndim > 1:
        ways[f"the sum, weighted by {name}, over the number of examples"] = lambda: total / len(values)
        ways[f"the mean over the examples of each one's mean, weighted by {name},"] = lambda: float(
            ((values * w).reshape(len(values), -1).sum(1) / w.reshape(len(values), -1).sum(1)).mean()
        )
    with np.errstate(all="ignore"):
        for words, way in ways.items():
            if w.any():
                yield words, way()


def _log_softmax(x: Array) -> Array:
    shifted = x - x.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))
