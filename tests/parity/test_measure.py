"""Norms of pairs of arrays in one pass, against the plain ones."""

import numpy as np
import pytest

from parity.judge.measure import measure
from parity.judge.numbers import BLOCK, distance, norm


def pair(size, dtype, apart=1e-6):
    draw = np.random.default_rng(size)
    one = draw.standard_normal(size).astype(dtype)
    return one, (one * (1 + apart * draw.standard_normal(size))).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("size", [0, 1, 7, BLOCK, BLOCK + 1, 5 * BLOCK + 3])
def test_it_gives_the_plain_norms(size, dtype):
    one, other = pair(size, dtype)
    found = measure(one.reshape(1, -1), other.reshape(1, -1), np.zeros((1, size), dtype))
    assert found.size == pytest.approx(norm(one), rel=1e-5)
    assert found.difference == pytest.approx(distance(one, other), rel=1e-5)
    assert found.moved == pytest.approx(norm(one), rel=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("factor", [1e-30, 1e-22, 1e22, 1e30])
def test_squares_neither_vanish_nor_overflow(dtype, factor):
    one, other = (value * dtype(factor) for value in pair(3 * BLOCK, dtype, apart=1e-3))
    found = measure(one, other)
    assert found.size == pytest.approx(norm(one), rel=1e-5) and found.size > 0.0
    assert found.difference == pytest.approx(distance(one, other), rel=1e-5) and found.difference > 0.0


def test_squares_of_float64_neither_vanish_nor_overflow_either():
    one, other = pair(2 * BLOCK, np.float64)
    for factor in (1e-200, 1e200):
        found = measure(one * factor, other * factor)
        assert (
            found.difference == pytest.approx(distance(one * factor, other * factor), rel=1e-12)
            and found.difference > 0
        )


def test_one_element_that_differs_is_not_lost_among_many():
    one = np.ones(4 * BLOCK, np.float32)
    other = one.copy()
    other[-1] = np.nextafter(np.float32(1), np.float32(2))
    assert measure(one, other).difference == float(other[-1]) - 1.0
    assert measure(one, one.copy()).difference == 0.0


@pytest.mark.parametrize("size", [5, 2 * BLOCK])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_left_to_whoever_asks(size, value):
    one, other = pair(size, np.float32)
    other[size // 2] = value
    assert measure(one, other) is None and measure(other, one) is None
