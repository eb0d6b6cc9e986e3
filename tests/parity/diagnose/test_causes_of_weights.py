"""What each side makes of one weight before an op takes it: named where both are reproduced to rounding, and only there."""

from types import SimpleNamespace

import numpy as np
import pytest

from parity.diagnose.layers.weights import OfAWeight, other_function
from parity.diagnose.located.op_inputs import cause_of_weights
from parity.diagnose.ops.activations import softmax
from parity.locate.matching import Pass
from parity.trace import ForwardOp, Operand

RANDOM = np.random.default_rng(3)
W = RANDOM.normal(size=(6, 4))
KERNEL = RANDOM.normal(size=(3, 3, 2, 5))
GAIN = RANDOM.uniform(0.5, 2.0, size=5)


def unit(w, *axes):
    return w / np.sqrt((w**2).sum(axes, keepdims=True))


def named(reference, candidate, weight=W, gains=()):
    return other_function(OfAWeight("head/w", weight, reference, candidate, "model.py:3", gains))


@pytest.mark.parametrize(
    ("reference", "candidate", "name", "words"),
    [
        (
            unit(W, 0),
            unit(W, 1).T,
            "normalised_axis",
            "norm over axis 1 of 4, where the reference divides it by its norm",
        ),
        (unit(W, 0), unit(W, 0, 1).T, "normalised_axis", "norm over all of it"),
        (softmax(W, 1), softmax(W, 0).T, "softmax_axis", "softmax of it over axis 0 of 6"),
        (unit(W, 0), W.T, "normalisation", "takes it as it is"),
        (np.logaddexp(0, W), np.exp(W), "activation_function", "takes the exponential of it"),
        (np.exp(W), np.exp(W / 2), "scale", "the exponential of half of it"),
        (W, 0.25 * W.T, "extra_scale", "multiplies what is made of head/w by 0.25"),
        (unit(W, 0), -3 * unit(W, 0).T, "scale", "by -3"),
        (np.sqrt(2 / 6) * W, W.T, "scale", "by 1.73205081"),
        (1 + W, W, "other_operation", "as it is"),
    ],
)
def test_another_function_of_a_weight_is_named(reference, candidate, name, words):
    cause = named(reference, candidate)
    assert (cause.name, words in cause.title) == (name, True)


def test_a_gain_is_taken_along_its_axis():
    reference, candidate = unit(KERNEL, 0, 1, 2) * GAIN, unit(KERNEL, 2) * GAIN
    cause = named(reference, candidate.transpose(3, 2, 0, 1), KERNEL, [GAIN])
    assert (cause.name, "norm over axis 2 of 2" in cause.title) == ("normalised_axis", True)


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        (unit(W, 0), unit(W, 0).T),  # the same
        (W, W[::-1]),  # of other places
        (W, W + 1e-6 * RANDOM.normal(size=W.shape)),
        (unit(W, 0), np.sin(W)),  # what is made of it is not known
        (np.sin(W), unit(W, 0)),
        (W, RANDOM.normal(size=W.shape)),
        (W / np.linalg.norm(W, 2), W.T),  # by no number that somebody wrote
    ],
)
def test_what_is_not_reproduced_is_not_named(reference, candidate):
    assert named(reference, candidate) is None


def test_two_numbers_tell_no_function():
    pair = np.array([[0.3, 0.7]])
    assert named(unit(pair, 0), np.exp(pair), pair) is None


def test_it_is_looked_for_in_what_the_ops_take_where_passes_part():
    x = RANDOM.normal(size=(5, 6))

    def side(kind, weight, of_weights):
        taken = (Operand("0", "x", None, [5, 6]), Operand("1", "", None, list(weight.shape)))
        ops = [ForwardOp("head", kind, [], of_weights, [5, 4], {}, None, taken)]
        return Pass(ops, lambda number: None, lambda number, at: (x, weight)[at])

    passes = side("MatMul", unit(W, 0), ["head/w"]), side("linear", unit(W, 1).T, ["head.weight"])
    place = SimpleNamespace(passes=passes, parting=SimpleNamespace(reference=0, candidate=0))
    assert cause_of_weights(place, {"head/w": W}).name == "normalised_axis"
    assert cause_of_weights(place, {}) is None
