"""Norms of pairs of arrays in one pass, against the plain ones."""

import numpy as np
import pytest

from parity.judge.fast_metrics import GROUP, fused_norms
from parity.judge.metrics import BLOCK, distance, norm


def pair(size, dtype, apart=1e-6):
    draw = np.random.default_rng(size)
    one = draw.standard_normal(size).astype(dtype)
    return one, (one * (1 + apart * draw.standard_normal(size))).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("size", [0, 1, 7, BLOCK, BLOCK + 1, 5 * BLOCK + 3])
def test_it_gives_the_plain_norms(size, dtype):
    one, other = pair(size, dtype)
    found = fused_norms(one.reshape(1, -1), other.reshape(1, -1), np.zeros((1, size), dtype))
    assert found.size == pytest.approx(norm(one), rel=1e-5)
    assert found.difference == pytest.approx(distance(one, other), rel=1e-5)
    assert found.moved == pytest.approx(norm(one), rel=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("factor", [1e-30, 1e-22, 1e22, 1e30])
def test_squares_neither_vanish_nor_overflow(dtype, factor):
    one, other = (value * dtype(factor) for value in pair(3 * BLOCK, dtype, apart=1e-3))
    found = fused_norms(one, other)
    assert found.size == pytest.approx(norm(one), rel=1e-5) and found.size > 0.0
    assert found.difference == pytest.approx(distance(one, other), rel=1e-5) and found.difference > 0.0


def test_squares_of_float64_neither_vanish_nor_overflow_either():
    one, other = pair(2 * BLOCK, np.float64)
    for factor in (1e-200, 1e200):
        found = fused_norms(one * factor, other * factor)
        assert (
            found.difference == pytest.approx(distance(one * factor, other * factor), rel=1e-12)
            and found.difference > 0
        )


def test_one_element_that_differs_is_not_lost_among_many():
    one = np.ones(4 * BLOCK, np.float32)
    other = one.copy()
    other[-1] = np.nextafter(np.float32(1), np.float32(2))
    assert fused_norms(one, other).difference == float(other[-1]) - 1.0
    assert fused_norms(one, one.copy()).difference == 0.0


@pytest.mark.parametrize("size", [5, 2 * BLOCK])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_left_to_whoever_asks(size, value):
    one, other = pair(size, np.float32)
    other[size // 2] = value
    assert fused_norms(one, other) is None and fused_norms(other, one) is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("blocks", [GROUP - 1, GROUP, GROUP + 1, 2 * GROUP + 3])
def test_no_block_of_a_group_is_left_out_or_counted_twice(dtype, blocks):
    one = np.zeros(blocks * BLOCK + 1, dtype)
    one[::BLOCK] = 2.0 ** np.arange(blocks + 1)
    other, before = one * 3, one * -1
    found = fused_norms(one, other, before)
    size = sum(4.0**block for block in range(blocks + 1)) ** 0.5
    assert (found.size, found.difference, found.moved) == pytest.approx((size, 2 * size, 2 * size), rel=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_norms_are_the_same_bits_wherever_arrays_lie_in_memory(dtype):
    one, other = pair(GROUP * BLOCK + 5, dtype)
    bits = np.dtype(dtype).itemsize
    found = {fused_norms(shifted(one, bits * by), shifted(other, bits * (by + 1))) for by in range(9)}
    assert len(found) == 1


def shifted(array, by):
    room = np.empty(array.nbytes + by, np.uint8)[by:].view(array.dtype)
    room[:] = array
    return room


def test_a_block_of_float32_is_summed_to_a_hundred_thousandth_at_worst():
    one = np.full(BLOCK, np.float32(1 / 3))  # every product rounds to the same side
    found = fused_norms(np.tile(one, 2 * GROUP), np.zeros(2 * GROUP * BLOCK, np.float32))
    assert found.size == pytest.approx(norm(np.tile(one, 2 * GROUP)), rel=1e-5)
