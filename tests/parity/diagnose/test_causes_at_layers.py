"""A layer whose inputs are known is computed again by other rules: the one is named that gives the candidate's output."""

import numpy as np
import pytest

from parity.diagnose.layers import normalization as at_norms
from parity.diagnose.layers.layer import extra_op, other_rule
from parity.diagnose.layers.normalization import normalised
from parity.diagnose.layers.rules import Layer
from parity.diagnose.ops.activations import FUNCTIONS

X = np.random.default_rng(0).normal(size=(6, 5, 4))
GAMMA, BETA = np.array([0.5, 1.5, 2.0, -1.0]), np.array([0.1, -0.2, 0.3, 0.0])
MOVING = np.array([0.9, 1.1, 1.3, 0.7])


def layer(reference, candidate, variables=(), statistics=(), x=X):
    return Layer("dense", "Relu", [x], reference, candidate, dict(variables), dict(statistics))


def soft(x, axis=-1):
    raised = np.exp(x - x.max(axis=axis, keepdims=True))
    return raised / raised.sum(axis=axis, keepdims=True)


def normed(axes, epsilon, variance=None):
    mean = X.mean(axis=axes, keepdims=True)
    divided = np.sqrt((X.var(axis=axes, keepdims=True) if variance is None else variance) + epsilon)
    return (X - mean) / divided * GAMMA + BETA


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "ReLU"])
def test_another_activation_is_named(name):
    cause = other_rule(layer(np.maximum(5 * X, 0), FUNCTIONS[name](5 * X), x=5 * X))
    assert cause.name == "activation_function"
    assert cause.title == f"dense goes through {name} in the candidate, through ReLU in the reference"


def test_an_activation_that_explains_only_a_part_is_not_named():
    assert other_rule(layer(np.maximum(X, 0), FUNCTIONS["SiLU"](X) * (1 + 1e-6))) is None


def test_scores_divided_by_another_number_are_named():
    mask = np.where(np.arange(4) < 3, 0.0, -1e4)
    cause = other_rule(layer(soft(X / 2 + mask), soft(X + mask), x=np.zeros(1)))
    assert (cause.name, "is 2 times as large in the candidate" in cause.title) == ("softmax_scale", True)


def test_a_softmax_over_another_axis_is_named():
    cause = other_rule(layer(soft(X), soft(X, 1)))
    assert (cause.name, "over axis 1 in the candidate, over axis 2" in cause.title) == ("softmax_axis", True)


@pytest.mark.parametrize(("axes", "place"), [((0, 1), "channel"), ((2,), "example")])
def test_another_epsilon_of_a_norm_is_named_with_both_numbers(axes, place):
    cause = other_rule(layer(normed(axes, 1e-3), normed(axes, 1e-5), {"gamma": GAMMA, "beta": BETA}))
    assert cause.name == "epsilon"
    assert "the epsilon 1e-05 in the candidate" in cause.title
    assert cause.title.endswith("and 0.001 in the reference")
    assert f"is that and the epsilon, in every {place}, and so divided" in cause.evidence


@pytest.mark.parametrize("axes", [(0, 1), (2,)])
def test_an_unbiased_variance_is_named(axes):
    count = np.prod([X.shape[axis] for axis in axes])
    unbiased = X.var(axis=axes, keepdims=True) * count / (count - 1)
    cause = other_rule(layer(normed(axes, 1e-3), normed(axes, 1e-3, unbiased), {"gamma": GAMMA, "beta": BETA}))
    assert (cause.name, "the unbiased variance and the epsilon 0.001 in the candidate" in cause.title) == (
        "normalisation",
        True,
    )


def test_moving_statistics_in_training_are_named():
    candidate = (X - 0.3) / np.sqrt(MOVING + 1e-3) * GAMMA + BETA
    statistics = {"moving_mean": np.full(4, 0.3), "moving_variance": MOVING}
    cause = other_rule(layer(normed((0, 1), 1e-3), candidate, {"gamma": GAMMA, "beta": BETA}, statistics))
    assert "the moving statistic moving_variance" in cause.title


def test_a_norm_that_misses_something_else_names_no_epsilon():
    weights, statistics = {"gamma": GAMMA, "beta": BETA}, {"moving_mean": np.full(4, 0.3), "moving_variance": MOVING}
    reference = normed((0, 1), 1e-3)
    of_moving_mean = reference + (X.mean(axis=(0, 1)) - 0.3) / np.sqrt(X.var(axis=(0, 1)) + 1e-3) * GAMMA
    for candidate in (reference - BETA, of_moving_mean):
        assert other_rule(layer(reference, candidate, weights, statistics)) is None
    by_example = normed((2,), 1e-5)
    uncentred = by_example + X.mean(-1, keepdims=True) / np.sqrt(X.var(-1, keepdims=True) + 1e-5) * GAMMA
    assert other_rule(layer(by_example, uncentred, weights)) is None


def test_one_channel_tells_no_epsilon():
    x = X.reshape(-1, 1)
    sides = [(x - x.mean()) / np.sqrt(x.var() + epsilon) * 2.0 for epsilon in (1e-3, 0.5)]
    assert other_rule(layer(*sides, {"gamma": np.array([2.0])}, x=x)) is None


@pytest.mark.parametrize("axes", [(0, 1), (2,)])
def test_the_scale_of_a_norm_is_found_wherever_it_stands_and_may_be_missing(axes):
    sides = normed(axes, 1e-3), normed(axes, 1e-5)
    shift = np.array([1.0, 2.0, -1.0, 3.0])  # without zeros, it may be taken for the scale
    cause = other_rule(layer(*(side - BETA + shift for side in sides), {"beta": shift, "gamma": GAMMA}))
    assert cause.name == "epsilon"
    assert other_rule(layer(*((side - BETA) / GAMMA for side in sides))).name == "epsilon"


def test_a_difference_that_no_rule_makes_is_not_named():
    other = np.random.default_rng(1).normal(size=X.shape)
    assert other_rule(layer(np.maximum(X, 0), other, {"gamma": GAMMA, "beta": BETA})) is None
    assert other_rule(layer(normed((0, 1), 1e-3), other, {"gamma": GAMMA, "beta": BETA})) is None


def test_what_a_port_puts_in_front_of_a_layer_is_named():
    scaled, active = extra_op("rnn", "mul", X, X * 12**0.5), extra_op("rnn", "relu", X, np.maximum(X, 0))
    assert (scaled.name, "multiplied by 3.4641" in scaled.title) == ("extra_scale", True)
    assert (active.name, active.title.endswith("a ReLU")) == ("activation_function", True)
    kept = np.random.default_rng(3).uniform(size=X.shape) < 0.5
    assert extra_op("rnn", "dropout", X, np.where(kept, X * 2, 0)).name == "dropout_active"
    assert extra_op("rnn", "sort", X, np.sort(X, axis=0)) is None


def test_another_scale_is_named_with_the_root_that_it_is():
    cause = other_rule(layer(X * 0.5, X / 12**0.5))
    assert cause.name == "scale"
    assert (
        "by 0.288675, 1 over the square root of 12, in the candidate, by 0.5, 1 over the square root of 4,"
        in cause.title
    )


@pytest.mark.parametrize(
    ("own", "other", "name"), [(0.3, 0.6, "scale"), (0.3, 0.3 / 8**0.5, "scale"), (0.3, 0.311, None)]
)
def test_what_a_weight_makes_is_a_scale_only_where_somebody_would_write_how_they_differ(own, other, name):
    """A softmax over two weights, where the reference divides by their sum: its shares are no factors that are written."""
    found = [other_rule(layer(own * X, other * X)._replace(kind="Mul", learned=learned)) for learned in (True, False)]
    assert [cause and cause.name for cause in found] == [name, "scale"]


def test_a_factor_that_does_not_make_all_that_differs_is_not_named():
    noise = 1 + 1e-11 * np.random.default_rng(5).normal(size=X.shape)
    assert other_rule(layer(X * 0.5, X * 0.5 * noise)) is None
    assert other_rule(layer(soft(X), soft(X * noise), x=np.zeros(1))) is None
    assert other_rule(layer(soft(X), soft(X + 1e-8 * X), x=np.zeros(1))) is None


def test_a_mask_that_is_not_added_is_named():
    masked = X + np.where(np.arange(4) < 2, 0.0, -1e4)
    given = layer(soft(masked), soft(X))._replace(op="attention/add", kind="AddV2", output=masked)
    assert other_rule(given).title == "the candidate leaves out attention/add (AddV2)"


def test_a_mask_along_another_axis_is_named():
    x = np.random.default_rng(2).normal(size=(2, 5, 5))
    mask = np.where(np.tri(5), 0.0, -1e4)[None]
    given = layer(soft(x + mask), soft(x + mask.swapaxes(1, 2)), x=x)
    given = given._replace(op="attention/add", kind="AddV2", output=x + mask)
    cause = other_rule(given)
    assert (cause.name, "along the other of the two last axes" in cause.title) == ("mask", True)


def test_a_residual_that_is_not_added_before_a_norm_is_named():
    def normed_of(x):
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * GAMMA + BETA

    residual = np.random.default_rng(4).normal(size=X.shape)
    given = layer(normed_of(X + residual), normed_of(X))._replace(
        op="layer/add", kind="AddV2", output=X + residual, norms=[(BETA, GAMMA), (GAMMA, BETA)]
    )
    assert other_rule(given).title == "the candidate leaves out layer/add (AddV2)"


def test_of_what_is_no_norm_a_channel_and_an_example_are_looked_at_and_no_more(monkeypatch):
    seen = []
    slope = at_norms._slope
    monkeypatch.setattr(at_norms, "_slope", lambda x, y, axes: seen.append(x.size) or slope(x, y, axes))
    x = np.random.default_rng(6).normal(size=(40, 30, 4))
    assert normalised(layer(np.tanh(x), np.sin(x), {"gamma": GAMMA, "beta": BETA}), x) is None
    assert max(seen) == 40 * 30


@pytest.mark.parametrize(
    ("axes", "words"),
    [((1, 2), "normalises each example and channel"), ((3,), "normalises the channels of each place")],
)
def test_a_norm_over_other_axes_is_named(axes, words):
    x = np.random.default_rng(8).normal(size=(6, 4, 4, 5)) + 0.3
    gamma, beta = np.linspace(0.5, 2.0, 5), np.linspace(-1.0, 1.0, 5)

    def normed(over):
        return (x - x.mean(over, keepdims=True)) / np.sqrt(x.var(over, keepdims=True) + 1e-5) * gamma + beta

    layer = Layer("norm", "Mul", [x], normed((0, 1, 2)), normed(axes), {"gamma": gamma, "beta": beta}, {})
    named = other_rule(layer)
    assert (named.name, words in named.title) == ("normalised_axis", True)
    assert "the examples of each channel in the reference" in named.title
    of_another_scope = layer._replace(variables={}, norms=[(beta, gamma), (gamma, beta)])
    assert other_rule(of_another_scope).name == "normalised_axis"
    assert other_rule(layer._replace(candidate=normed(axes) + 0.1 * x)) is None
