"""Hypotheses on arrays: what they read off them, and what they leave alone."""

from types import SimpleNamespace

import numpy as np
import pytest

from parity.diagnose.detectors.clipping import by_value, how
from parity.diagnose.detectors.forward import activation_function
from parity.diagnose.interventions import ahead_of
from parity.diagnose.interventions.solve import _root
from parity.judge import Cause, Check, FirstDifference

RANDOM = np.random.default_rng(0)
GRADIENTS = [RANDOM.standard_normal((4, 3)), 0.1 * RANDOM.standard_normal(5)]


def clipped(by):
    return [(gradient, by(gradient)) for gradient in GRADIENTS]


def test_gradients_scaled_alike_are_clipped_by_global_norm():
    rule = how(clipped(lambda gradient: 0.25 * gradient))
    assert rule.by == "global norm"
    total = 0.25 * float(np.sqrt(sum((gradient**2).sum() for gradient in GRADIENTS)))
    assert rule.value == pytest.approx(total)


def test_gradients_of_one_norm_are_clipped_each_by_its_own():
    rule = how(clipped(lambda gradient: 0.05 * gradient / np.linalg.norm(gradient)))
    assert (rule.by, rule.value) == ("norm", pytest.approx(0.05))


def test_gradients_cut_off_at_one_value_are_clipped_by_value():
    rule = how(clipped(lambda gradient: np.clip(gradient, -0.05, 0.05)))
    assert (rule.by, rule.value) == ("value", pytest.approx(0.05))


def test_a_gradient_of_two_parts_with_a_limit_each_is_clipped_by_value_though_known_roughly():
    before = GRADIENTS[0]
    after = np.concatenate([np.clip(before[:2], -0.3, 0.3), np.clip(before[2:], -0.2, 0.2)])
    rough = after * (1 + 1e-9 * RANDOM.standard_normal(after.shape))
    assert by_value([(before, rough)]) is None
    assert by_value([(before, rough)], 1e-6)[:3] == ("clips the gradients by value to 0.2 to 0.3", True, "value")


def test_gradients_left_as_they_are_are_not_clipped():
    assert how(clipped(lambda gradient: gradient.copy())).text == "leaves the gradients as they are"


def test_gradients_with_noise_are_clipped_by_no_rule():
    assert how(clipped(lambda gradient: 0.5 * gradient + 0.01 * RANDOM.standard_normal(gradient.shape))) is None


def test_what_only_says_where_is_no_cause_beside_an_experiment_that_explains_all_of_a_difference():
    border, momentum, shift, narrow = (
        Cause(name, "", "", "") for name in ("border", "momentum", "input_shift", "reduced_precision")
    )
    assert ahead_of([momentum, border], [shift]) == [shift, momentum]
    assert ahead_of([momentum, border], [narrow]) == [narrow, momentum, border]
    assert ahead_of([momentum, border], []) == [momentum, border]


def test_which_draw_it_is_comes_before_that_the_port_draws():
    dropout, drawn, border = (Cause(name, "", "", "") for name in ("dropout_active", "random_draw", "border"))
    assert ahead_of([border, dropout], [drawn]) == [dropout, drawn]


def test_the_number_that_undoes_a_difference_is_found():
    weights = np.array([1.0, 2.0, -3.0])
    found = _root(lambda x: np.tanh(weights * (1 + x)) - np.tanh(weights * 1.37), 1e-12)
    assert found == pytest.approx(0.37, abs=1e-10)


def test_no_number_is_found_where_none_undoes_the_difference():
    weights = np.array([1.0, 2.0, -3.0])
    assert _root(lambda x: weights * (1 + x) - np.array([1.0, 2.0, 3.0]), 1e-12) is None
    assert _root(lambda x: weights * 0.0 + 1.0, 1e-12) is None


def test_a_function_whose_output_hardly_varies_is_near_to_all_that_is_small():
    """Zeros are 2% of 1,500 away from 15: that is no ReLU."""
    large, small = -1500.0 + RANDOM.normal(size=10), 15.0 + RANDOM.normal(size=10)
    check = Check("lockstep", 0, "act/0/sum", "different", 1500.0, 1e-9)
    first = FirstDifference(check, "act", "sum", "0", None)

    def cause(*sides):
        return activation_function(first, SimpleNamespace(pairs=lambda *asked: [("sum", *sides)]))

    assert cause(large, small) is None
    mixed = RANDOM.normal(size=40)
    assert "ReLU of what no activation was applied to" in cause(mixed, np.maximum(mixed, 0.0)).evidence
