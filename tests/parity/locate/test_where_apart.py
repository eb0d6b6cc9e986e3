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


SIGNS = np.array([[-2.0, -1.0, 0.0, 0.0, 1.0, 3.0]])


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (
            np.where(SIGNS < 0, -SIGNS, SIGNS),
            "2 of 6 values differ, all of those that are negative in the reference, and no",
        ),
        (np.where(SIGNS > 0, 2 * SIGNS, SIGNS), "all of those that are positive in the reference, and no others"),
        (np.where(SIGNS == 3.0, 4.0, SIGNS), "1 of 6 values differ, some of those that are positive in the reference"),
        (
            np.where(np.abs(SIGNS) == 1.0, 0.0, SIGNS),
            "2 of 6 values differ, where the port has 0; only in unit 1, 4 of 6",
        ),
        (np.where(np.abs(SIGNS) == 1.0, 9.0, SIGNS), "2 of 6 values differ, only in unit 1, 4 of 6"),
        (np.zeros((1, 6)), "4 of 6 values differ, only in unit 0, 1, 4, 5 of 6"),
    ],
)
def test_signs_of_the_reference_and_zeros_of_the_port_are_told_of_what_differs(other, words):
    assert words in where_apart(SIGNS, other)
    assert "zero" not in where_apart(np.zeros((2, 3)), np.ones((2, 3))), "all are zero"


@pytest.mark.parametrize(
    ("shape", "place", "words"),
    [
        ((5,), (2,), "only in element 2 of 5"),
        ((3, 9), (slice(None), slice(1, 9)), "only in unit 1 to 8 of 9"),
        ((3, 9), (slice(None), slice(None, None, 2)), "only in unit 0, 2, 4, 6, 8 of 9"),
        ((3, 20), (slice(None), slice(None, None, 2)), "only in unit 0, 2, 4, 6, 8, 10, ... of 20"),
        ((3, 4, 2), (1, slice(0, 2)), "only in example 1 of 3; only in step 0, 1 of 4"),
        ((2, 3, 4, 5, 2), (slice(None), slice(None), 3), "only in axis 2 3 of 4"),
    ],
)
def test_places_are_named_by_what_the_axes_of_an_output_are(shape, place, words):
    ones = np.ones(shape)
    assert where_apart(ones, changed(ones, *place)).endswith(f"values differ, {words}")


@pytest.mark.parametrize(
    ("size", "row", "words"), [(9, 1, "within 2"), (9, 2, "within 3"), (9, 3, "row 3"), (7, 2, "row 2")]
)
def test_the_border_is_told_as_far_as_some_of_the_image_is_inside_of_it(size, row, words):
    ones = np.ones((2, size, 12, 1))
    assert f"only {'in ' if words.startswith('row') else ''}{words} of" in where_apart(ones, changed(ones, 0, row))


def test_what_is_infinite_on_both_sides_is_the_same_and_what_is_no_number_differs():
    values = np.array([1.0, np.inf, -np.inf, 2.0])
    assert where_apart(values, values.copy()) == "nowhere by more than rounding"
    assert where_apart(values, np.array([1.0, -np.inf, -np.inf, np.nan])).startswith("2 of 4 values differ")
    assert where_apart(values, np.array([1.0, 5.0, -1e9, 2.0])).startswith("2 of 4 values differ")
