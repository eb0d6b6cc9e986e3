"""Where two outputs differ is said in words: by their values, by their axes, at the border."""

import numpy as np
import pytest

from parity.locate.description import where_apart


@pytest.fixture
def values():
    return np.maximum(np.random.default_rng(0).normal(size=(4, 8, 8, 3)), 0.0)


def changed(values, *place):
    other = values.copy()
    other[place] += 1.0
    return other


def test_outputs_that_are_the_same_differ_nowhere(values):
    assert where_apart(values, values * (1 + 1e-14)) == "nowhere by more than rounding"


def test_what_differs_everywhere_is_only_counted(values):
    assert where_apart(values, values + 1.0) == "768 of 768 values differ"


def test_the_border_of_an_image_is_told(values):
    other = changed(values, slice(None), 0)
    other[:, :, -1] += 1.0
    assert where_apart(values, other).endswith("only within 1 of the border of the image")


def test_examples_rows_and_channels_are_told_where_no_others_differ(values):
    told = where_apart(values, changed(values, slice(None), slice(2, 5), slice(None), 1))
    assert told.endswith("only in row 2 to 4 of 8; only in channel 1 of 3")
    assert where_apart(values, changed(values, [0, 2])).endswith("only in example 0, 2 of 4")


def test_zeros_of_the_reference_are_told(values):
    told = where_apart(values, np.where(values == 0.0, -0.5, values))
    assert "all of those that are zero in the reference, and no others" in told


@pytest.mark.parametrize(("apart", "words"), [(0.5e-10, "nowhere"), (4e-10, "1 of 3 values")])
def test_a_value_differs_beyond_the_tolerance_and_not_within_it(apart, words):
    values = np.ones(3)
    assert where_apart(values, changed(values, 1) - np.array([0.0, 1.0 - apart, 0.0])).startswith(words)
