"""What each side makes of a weight is told by its numbers: which function, which norm, which factor."""

import math

import numpy as np
import pytest

from parity.diagnose.layers.weights import OfAWeight, is_written, other_function

RANDOM = np.random.default_rng(19)
WEIGHT, GAIN = RANDOM.normal(size=(3, 4)), RANDOM.uniform(0.5, 2.0, size=4)


def softmax(x, axis):
    return np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True)


MADE = {
    "takes it as it is": WEIGHT,
    "takes the exponential of it": np.vectorize(math.exp)(WEIGHT),
    "takes the exponential of minus it": 1 / np.vectorize(math.exp)(WEIGHT),
    "takes the exponential of half of it": np.sqrt(np.exp(WEIGHT)),
    "takes the exponential of twice it": np.exp(WEIGHT) ** 2,
    "takes softplus of it": np.log(1 + np.exp(WEIGHT)),
    "takes sigmoid of it": np.exp(WEIGHT) / (1 + np.exp(WEIGHT)),
    "takes tanh of it": np.sinh(WEIGHT) / np.cosh(WEIGHT),
    "takes its square": WEIGHT * WEIGHT,
    "takes its absolute value": np.maximum(WEIGHT, -WEIGHT),
    "takes relu of it": np.where(WEIGHT > 0, WEIGHT, 0.0),
    "takes 1 plus it": WEIGHT + 1,
    "takes minus it": 0.0 - WEIGHT,
    "divides it by its norm over axis 0 of 3": WEIGHT / np.linalg.norm(WEIGHT, axis=0, keepdims=True),
    "divides it by its norm over axis 1 of 4": WEIGHT / np.linalg.norm(WEIGHT, axis=1, keepdims=True),
    "divides it by its norm over all of it": WEIGHT / np.linalg.norm(WEIGHT),
    "takes the softmax of it over axis 0 of 3": softmax(WEIGHT, 0),
    "takes the softmax of it over axis 1 of 4": softmax(WEIGHT, 1),
}


def named(reference, candidate, weight=WEIGHT, gains=()):
    return other_function(OfAWeight("w", weight, reference, candidate, "line 1", gains))


@pytest.mark.parametrize("own", MADE)
def test_two_functions_of_a_weight_are_told_by_their_words(own):
    for other, made in MADE.items():
        cause = named(MADE[own], made)
        if other == own:
            assert cause is None
            continue
        assert own in cause.title and other in cause.title, (own, other)
        assert cause.evidence == "so made of w, 12 numbers are what each side's op takes, to rounding"
        # In another order of the axes they are the same numbers.
        assert named(MADE[own], made.T).title == cause.title


@pytest.mark.parametrize(
    ("own", "other", "name"),
    [
        ("divides it by its norm over axis 0 of 3", "divides it by its norm over axis 1 of 4", "normalised_axis"),
        ("takes the softmax of it over axis 0 of 3", "takes the softmax of it over axis 1 of 4", "softmax_axis"),
        ("takes it as it is", "divides it by its norm over all of it", "normalisation"),
        ("takes the exponential of it", "takes the exponential of half of it", "scale"),
        ("takes the exponential of it", "takes softplus of it", "activation_function"),
        ("takes 1 plus it", "takes it as it is", "other_operation"),
        ("takes minus it", "takes tanh of it", "other_operation"),
    ],
)
def test_two_functions_of_a_weight_are_called_by_their_kind(own, other, name):
    assert named(MADE[own], MADE[other]).name == name
    assert named(MADE[other], MADE[own]).name == name


def test_a_gain_for_each_place_may_stand_behind_a_norm():
    plain, over = MADE["takes it as it is"], MADE["divides it by its norm over axis 0 of 3"]
    cause = named(GAIN * over, GAIN * MADE["divides it by its norm over axis 1 of 4"], gains=[GAIN])
    assert cause.name == "normalised_axis"
    assert named(GAIN * over, plain, gains=[GAIN]).name == "normalisation"
    assert named(GAIN * over, plain) is None
    assert named(GAIN * MADE["takes tanh of it"], plain, gains=[GAIN]) is None


@pytest.mark.parametrize(
    ("factor", "name"), [(0.5, "extra_scale"), (-3.0, "extra_scale"), (math.sqrt(2 / 7), "extra_scale")]
)
def test_a_factor_that_somebody_wrote_is_told(factor, name):
    cause = named(WEIGHT, factor * WEIGHT)
    assert cause.name == "extra_scale" and f"{factor:.6g}" in cause.title
    assert "the 12 numbers that the reference's op takes are what" in cause.evidence
    unknown = RANDOM.normal(size=(3, 4))
    assert named(unknown, factor * unknown).name == "scale"
    assert named(WEIGHT, 0.123456789012 * math.pi * WEIGHT) is None
    assert named(0.0 * WEIGHT, WEIGHT) is None


@pytest.mark.parametrize(
    ("factor", "is_one"),
    [
        (0.5, True), (1 / 3, True), (math.sqrt(5000), True), (1 / math.sqrt(4999), True), (math.sqrt(5003 / 5009), False),
        (math.pi, False), (0.0, False), (-1.0, False), (math.inf, False), (0.5 * (1 + 0.4e-12), True),
        (0.5 * (1 + 0.6e-12), False),
    ],
)  # fmt: skip
def test_what_is_written_is_a_fraction_of_counts_or_its_root(factor, is_one):
    assert is_written(factor) == is_one


def test_weights_of_two_numbers_or_none_that_are_finite_tell_no_function():
    for weight, is_told in ((np.array([1.0, 2.0, 2.5]), True), (np.array([1.0, 2.0, 2.0]), False)):
        assert (named(weight, np.exp(weight), weight) is not None) == is_told
    one, other = WEIGHT.copy(), np.exp(WEIGHT)
    one[0, 0] = np.inf
    assert named(one, other, one) is None
    assert named(one, other) is None
    for at_most in (4, 5):
        deep = RANDOM.normal(size=(2,) * at_most)
        norm = deep / np.sqrt((deep**2).sum(0, keepdims=True))
        assert (named(deep, norm, deep) is not None) == (at_most == 4)


KEPT = np.array([[1, 1, 0, 0], [1, 0, 1, 0], [0, 1, 1, 1]], bool)


@pytest.mark.parametrize("turned", [False, True])
def test_other_numbers_of_a_weight_that_are_masked_are_told_as_another_mask(turned):
    """As of convolutions that may not see what they predict; the port may have the axes in another order."""
    fewer = KEPT & ~np.eye(3, 4, dtype=bool)
    there = np.where(fewer, WEIGHT, 0.0)
    cause = other_function(OfAWeight("w", WEIGHT, np.where(KEPT, WEIGHT, 0.0), there.T if turned else there, "lines"))
    assert cause.name == "mask"
    assert "keeps 5 of its 12 numbers, where the reference keeps 7 of its 12 numbers" in cause.title
    assert "2 of 12 are kept on one side only" in cause.evidence
    whole = other_function(OfAWeight("w", WEIGHT, np.where(KEPT, WEIGHT, 0.0), WEIGHT, "lines"))
    assert whole.name == "mask" and "keeps 12 of its 12 numbers, where" in whole.title


def test_the_same_numbers_of_a_weight_or_others_with_zeros_are_no_other_mask():
    kept = np.where(KEPT, WEIGHT, 0.0)
    assert other_function(OfAWeight("w", WEIGHT, kept, kept, "lines")) is None
    assert other_function(OfAWeight("w", WEIGHT, kept, np.where(KEPT, np.sin(3 * WEIGHT), 0.0), "lines")) is None
