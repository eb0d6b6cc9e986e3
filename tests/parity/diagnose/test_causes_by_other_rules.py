"""An op is computed again by other rules: what gives an output that only the candidate has is named."""

import numpy as np
import pytest

from parity.diagnose.layers.other_rules import Op, is_held, other_way
from parity.diagnose.ops.activations import FUNCTIONS
from parity.diagnose.ops.resize import resized

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(3, 4, 6, 8))
A, B = RANDOM.normal(size=(3, 5, 4, 4))[..., :4], RANDOM.normal(size=(3, 5, 4, 4))


def length(x, axis):
    return np.sqrt((x**2).sum(axis=axis, keepdims=True))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


WAYS = dict(resized(X, (8, 12)))
CASES = [
    ("resizing", [X], WAYS["bilinear between the centres of pixels"], WAYS["bilinear with aligned corners"], "aligned"),
    ("activation_function", [X], np.maximum(0.2 * X, X), np.where(X > 0, X, 0.01 * X), "slope 0.01"),
    ("reduction", [X], X.max(axis=1), X.mean(axis=1), "the mean over axis 1, the reference the largest"),
    ("reduction", [X], X.sum(axis=1), X.sum(axis=2), "the sum over axis 2"),
    ("normalisation", [X], X.var(axis=1), X.var(axis=1, ddof=1), "the variance over axis 1 (divided by n - 1)"),
    (
        "normalisation",
        [X],
        X.std(axis=(1, 2)),
        X.std(axis=(1, 2), ddof=1),
        "standard deviation over axis 1, 2 (divided by n - 1)",
    ),
    ("normalisation", [X], X.var(axis=3), X.std(axis=3), "the standard deviation over axis 3 (divided by n)"),
    ("normalised_axis", [X], X / length(X, 3), X / length(X, 0), "length over axis 0"),
    ("gate_halves", [X], X[..., :4] * sigmoid(X[..., 4:]), X[..., 4:] * sigmoid(X[..., :4]), "second half as values"),
    ("gate_halves", [X], X[..., :4] * sigmoid(X[..., 4:]), X[..., ::2] * sigmoid(X[..., 1::2]), "even channels"),
    ("transposed_product", [A, B], A @ B, A @ B.swapaxes(-1, -2), "the second transposed"),
]


@pytest.mark.parametrize(("name", "inputs", "own", "other", "words"), CASES)
def test_the_rule_that_gives_the_candidates_output_is_named(name, inputs, own, other, words):
    moved = np.moveaxis(other, -1, 1) if other.ndim > 2 else other.T
    cause = other_way(Op("layer", inputs, [own], [RANDOM.normal(size=own.shape), moved]))
    assert cause.name == name
    assert words in cause.title


@pytest.mark.parametrize(("name", "inputs", "own", "other", "words"), CASES)
def test_random_differences_name_nothing(name, inputs, own, other, words):
    assert other_way(Op("layer", inputs, [own], [RANDOM.normal(size=own.shape)])) is None
    assert other_way(Op("layer", inputs, [own], [other * (1 + 1e-6 * RANDOM.normal(size=other.shape))])) is None
    assert other_way(Op("layer", inputs, [RANDOM.normal(size=own.shape)], [other])) is None


def test_the_references_own_rule_in_another_layout_is_no_other_rule():
    assert other_way(Op("layer", [X], [X.max(axis=1)], [X.max(axis=1).T])) is None


def test_an_output_is_put_in_order_once_however_many_rules_are_tried(monkeypatch):
    ordered, sort = [], np.sort
    monkeypatch.setattr(np, "sort", lambda array, **how: ordered.append(array) or sort(array, **how))
    beyond = RANDOM.normal(size=(3, 6, 8))
    assert other_way(Op("layer", [X], [X.max(axis=1)], [beyond])) is None
    assert sum(each is beyond for each in ordered) == 1


@pytest.mark.parametrize("infinite", [np.inf, -np.inf])
def test_no_rule_gives_an_output_that_is_not_finite(infinite):
    own = X.max(axis=1)
    masked = np.where(own > 1.5, infinite, own)
    assert other_way(Op("layer", [X], [own], [X.mean(axis=1)])).name == "reduction"
    assert other_way(Op("layer", [X], [masked], [X.mean(axis=1)])) is None


def test_few_or_equal_numbers_are_in_no_output():
    assert not is_held(np.arange(7.0), [np.arange(7.0)])
    assert is_held(np.arange(8.0), [np.arange(8.0)[::-1]])
    assert not is_held(np.ones(9), [np.ones(9)])


def test_large_numbers_overflow_in_no_activation():
    with np.errstate(over="raise"):
        assert np.array_equal(FUNCTIONS["sigmoid"](np.array([-1e4, 0.0, 1e4])), [0.0, 0.5, 1.0])
        assert other_way(Op("layer", [1e4 * X], [np.maximum(1e4 * X, 0)], [np.tanh(1e4 * X)])) is not None


def test_two_forms_of_one_rule_are_no_difference():
    squared, root = (length(X, 3) ** 2).reshape(-1), length(X, 3)
    assert other_way(Op("layer", [X], [squared], [root])) is None
    assert other_way(Op("layer", [X], [squared], [length(X, 1)])).name == "normalised_axis"


def test_a_standard_deviation_is_held_against_the_references_own_not_its_mean_or_variance():
    graph = [X.mean(axis=1, keepdims=True), X.var(axis=1), X.std(axis=1)]
    title = other_way(Op("layer", [X], graph, [X.std(axis=1, ddof=1)])).title
    assert title.count("the standard deviation over axis 1 (divided by n") == 2


@pytest.mark.parametrize("epsilon", [1e-3, 1e-8])
def test_an_epsilon_under_the_root_of_a_variance_is_no_other_count_of_values(epsilon):
    own, under = X.std(axis=1), np.sqrt(X.var(axis=1) + epsilon)
    assert other_way(Op("layer", [X], [own], [under])) is None
    assert other_way(Op("layer", [X], [under], [own])) is None
    assert other_way(Op("layer", [X], [own], [np.sqrt(X.var(axis=1, ddof=1) + epsilon)])) is None
