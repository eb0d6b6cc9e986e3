"""How much a term's numbers count is said as people say it: a sum, a mean, a fraction, a constant."""

import math

import numpy as np
import pytest

from parity.diagnose.layers.linear_terms import Term
from parity.diagnose.layers.term_counts import (
    in_one_order,
    is_fraction,
    is_reduced,
    share_of,
    words_of_counts,
    words_of_number,
)

VALUES = np.array([3.0, 1.0, 2.0, 5.0, 4.0])


def term(counts, values=VALUES):
    return Term(0, np.asarray(values, np.float64), np.asarray(counts, np.float64))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.5, "0.5"),
        (1.0, "1"),
        (3.0, "3"),
        (-2.0, "-2"),
        (0.0, "0"),
        (1 / 3, "1/3"),
        (-2 / 3, "-2/3"),
        (7 / 128, "0.0546875"),
        (9 / 4096, "9/4096"),
        (1234567.0, "1.23457e+06"),
        (1 / 19_999, "1/19999"),
        (1 / 20_011, "4.99725e-05"),
        (0.123456789, "0.123457"),
        (math.log(2), "0.693147 (log 2)"),
        (1 / math.log(2), "1.4427 (1 / log 2)"),
        (math.log(10), "2.30259 (log 10)"),
        (1 / math.log(10), "0.434294 (1 / log 10)"),
        (math.pi, "3.14159 (pi)"),
        (1 / math.pi, "0.31831 (1 / pi)"),
        (math.sqrt(2), "1.41421 (the root of 2)"),
        (1 / math.sqrt(2), "0.707107 (1 / the root of 2)"),
        (math.pi * (1 + 0.9e-9), "3.14159 (pi)"),
        (math.pi * (1 + 1.1e-9), "3.14159"),
        (-math.pi, "-3.14159"),
    ],
)
def test_a_number_is_said_as_the_fraction_or_the_constant_that_it_is(value, words):
    assert words_of_number(value) == words


@pytest.mark.parametrize(
    ("value", "is_one"),
    [(1 / 3, True), (19_999 / 20_000, True), (2.0, True), (0.0, False), (math.pi, False), (1 / 3 + 1e-12, False)],
)
def test_a_fraction_is_of_counts_up_to_twenty_thousand(value, is_one):
    assert is_fraction(value) == is_one
    assert is_fraction(value * (1 + 0.9e-13)) == is_one
    assert not is_fraction(value * (1 + 2e-13))


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (np.ones(5), "the sum"),
        (np.full(5, 0.2), "the mean"),
        ([1, 1, 0, 0, 0], "2 of its 5 numbers: the sum"),
        ([0.5, 0.5, 0, 0, 0], "2 of its 5 numbers: the mean"),
        ([0.2, 0.2, 0, 0, 0], "2 of its 5 numbers: the sum over the number of all"),
        (np.full(5, 3.0), "3 times the sum"),
        (np.full(5, -1.0), "-1 times the sum"),
        ([3, 3, 3, 0, 0], "3 of its 5 numbers: 3 times the sum"),
        ([1, 2, 3, 4, 5], "a weighted sum, with weights that add up to 15,"),
        (np.zeros(5), "a weighted sum, with weights that add up to 0,"),
        (1 + 0.9e-9 * np.arange(5) / 4, "the sum"),
        (1 + 1.1e-9 * np.arange(5) / 4, "a weighted sum, with weights that add up to 5,"),
        (np.full(5, 1 + 0.9e-9), "the sum"),
        (np.full(5, 1 + 1.1e-9), "1 times the sum"),
    ],
)
def test_what_is_taken_of_numbers_is_said(counts, words):
    assert words_of_counts(term(counts)) == words


def test_of_a_single_number_and_of_many_it_is_said_how_often_and_how_many():
    assert words_of_counts(term([0.5], [7.0])) == "0.5 times"
    many = term(np.arange(4000) < 1234, np.arange(1.0, 4001.0))
    assert words_of_counts(many) == "1,234 of its 4,000 numbers: the sum"


def test_numbers_of_two_sides_belong_together_by_their_values():
    """In another layout, and without zeros, of which nobody can say how much they count."""
    one, other = term([1, 2, 3, 4, 5]), term([5, 1, 3, 4, 2], [4, 3, 2, 5, 1])
    for each, expected in zip(in_one_order(one, other), ([2, 3, 1, 5, 4], [2, 3, 1, 5, 4]), strict=True):
        np.testing.assert_array_equal(each, expected)
    zeros = in_one_order(term([1, 9, 2], [1, 0, 2]), term([2, 1, 8], [2, 1, 0]))
    np.testing.assert_array_equal(zeros, [[1, 2], [1, 2]])
    assert [each.tolist() for each in in_one_order(term([1], [0.0]), term([2], [0.0]))] == [[], []]
    assert [each.tolist() for each in in_one_order(term([1], [1.0]), term([1, 1], [1.0, 2.0]))] == [[0.0], [1.0]]


@pytest.mark.parametrize(("apart", "together"), [(0.9e-12, True), (1.2e-12, False)])
def test_numbers_that_are_equal_to_rounding_count_together(apart, together):
    values = np.array([5.0, 1.0, 1.0 + 5.0 * apart])
    one, other = in_one_order(term([7, 1, 2], values), term([7, 2, 1], values))
    assert (one.tolist(), other.tolist()) == (([3, 7], [3, 7]) if together else ([1, 2, 7], [2, 1, 7]))


@pytest.mark.parametrize(
    ("counts", "share"),
    [
        ([2, 4, 6, 8, 10], 2.0),
        ([-1, -2, -3, -4, -5], -1.0),
        ([2, 4, 6, 8, 11], None),
        ([2, 4, 6, 8, 0], None),
        ([0, 0, 0, 0, 0], None),
        (np.array([1, 2, 3, 4, 5 * (1 + 0.9e-9)]), 1.0),
        (np.array([1, 2, 3, 4, 5 * (1 + 1.1e-9)]), None),
    ],
)
def test_a_share_is_one_of_all_numbers(counts, share):
    assert share_of(term([1, 2, 3, 4, 5]), term(counts)) == (share and pytest.approx(share))
    assert share_of(term(np.zeros(5)), term(counts)) is None


@pytest.mark.parametrize(
    ("counts", "divisors", "is_one"),
    [
        (np.ones(5), (), True),
        (np.full(5, 0.2), (), True),
        ([0.5, 0.5, 0, 0, 0], (), True),
        ([0.2, 0.2, 0, 0, 0], (), True),
        (np.full(5, 1 / 7), (), False),
        (np.full(5, 1 / 7), (3.0, 7.0), True),
        (np.full(5, 1 / 35), (7.0,), True),
        (np.zeros(5), (), False),
        ([1, 1, 1, 1, 1 + 0.9e-10], (), True),
        ([1, 1, 1, 1, 1 + 1.1e-10], (), False),
        ([1, 1, 1, 1, -1], (), False),
    ],
)
def test_a_reduction_is_a_sum_or_over_a_number_of_what_there_is(counts, divisors, is_one):
    assert is_reduced(term(counts), divisors) == is_one


@pytest.mark.parametrize(("count", "is_one"), [(1 / 12, True), (1 / 12.5, False), (3.0, False), (1.0, True)])
def test_a_single_number_is_over_how_many_it_was_reduced_of(count, is_one):
    assert is_reduced(term([count], [2.0]), ()) == is_one
