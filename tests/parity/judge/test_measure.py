"""Norms of pairs of arrays in one pass, against the plain ones."""

import numpy as np
import pytest

from parity.judge.fast_metrics import GROUP, fused_norms
from parity.judge.metrics import BLOCK, Worst, distance, is_constant, norm, worst


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


@pytest.mark.parametrize("size", [3, BLOCK + 3])
@pytest.mark.parametrize("factor", [1.0, 1e-200, 1e200])
def test_norms_are_right_however_small_or_large_the_elements(size, factor):
    one = np.zeros(size)
    one[0], one[-1] = 3.0 * factor, 4.0 * factor
    assert norm(one) == pytest.approx(5.0 * factor, rel=1e-14)
    assert distance(one, -one) == pytest.approx(10.0 * factor, rel=1e-14)
    assert norm(np.zeros(size)) == distance(one, one) == 0.0


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_the_norm_of_what_is_not_finite_is_not(value):
    assert str(norm(np.array([1.0, value]))) == str(distance(np.array([1.0, value]), np.ones(2))) == str(value)
    assert norm(np.zeros(0)) == 0.0


def test_large_arrays_of_unlike_shapes_are_as_far_apart_as_small_ones():
    assert distance(np.ones((BLOCK, 2)), np.zeros(2)) == pytest.approx((2 * BLOCK) ** 0.5, rel=1e-14)


@pytest.mark.parametrize(
    ("values", "constant"),
    [([2.0, 2.0], True), ([2.0], False), ([], False), ([2.0] * 16 + [3.0], False), ([2.0] * 17, True), ([1, 2], False)],
)
def test_several_elements_that_are_one_number_are_a_constant(values, constant):
    assert is_constant(np.array(values).reshape(1, -1)) is constant


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ([1.0, 2.0, -4.0], [1.5, 2.0, -3.0], Worst((2,), -4.0, -3.0, 1.0, 0.25, 2.0**50)),
        ([1.0, 0.0], [1.0, 0.5], Worst((1,), 0.0, 0.5, 0.5, INF, INF)),
        ([0.0, 0.0], [0.0, 0.0], Worst((0,), 0.0, 0.0, 0.0, 0.0, 0.0)),
        ([NAN, 1.0], [NAN, 1.0], Worst((1,), 1.0, 1.0, 0.0, 0.0, 0.0)),
        ([9.0, 1.0], [-9.0, INF], Worst((1,), 1.0, INF, INF, INF, INF)),
        ([9.0, NAN], [-9.0, 1.0], Worst((1,), NAN, 1.0, INF, NAN, INF)),
    ],
)
def test_the_element_that_differs_most_is_told_with_how_much(one, other, found):
    assert str(worst(np.array(one), np.array(other))) == str(found)


def test_ulps_are_those_of_the_coarser_type_at_the_references_value():
    one, other = np.array([[1.0, 2.0]]), np.array([[1.0, 2.0 - 2.0**-23]], np.float32)
    assert worst(one, other)[:1] + worst(one, other)[-1:] == ((0, 1), 0.5)
    assert worst(one, other.astype(np.float64)).ulp == 2.0**28
    assert worst(np.array([5]), np.array([7])).ulp == 2 / 2.0**-50


@pytest.mark.parametrize("before", [None, 5.0])
@pytest.mark.parametrize("size", [3, 2 * BLOCK])
def test_float64_whose_squares_vanish_is_measured_with_care(size, before):
    one = np.full(size, 3e-200)
    found = fused_norms(one, np.zeros(size), None if before is None else one - before)
    assert found[:2] == pytest.approx((norm(one), norm(one)), rel=1e-12) and found.size > 0.0
    assert found.moved == pytest.approx(0.0 if before is None else before * size**0.5, rel=1e-12)


@pytest.mark.parametrize("size", [5, 2 * BLOCK])
def test_what_was_before_and_is_not_finite_is_left_to_whoever_asks_too(size):
    one, before = np.ones(size), np.ones(size)
    before[-1] = np.nan
    assert fused_norms(one, one, before) is None


@pytest.mark.parametrize("size", [1, BLOCK, BLOCK + 1])
def test_differences_are_taken_in_float64_and_warn_of_nothing(size):
    one, other = np.full(size, 1.0, np.float32), np.full(size, 2.0**-30, np.float32)
    assert distance(one, other) == pytest.approx((1.0 - 2.0**-30) * size**0.5, rel=1e-14)
    assert distance(np.zeros(size, np.uint8), np.ones(size, np.uint8)) == pytest.approx(size**0.5, rel=1e-14)
    assert np.isnan(distance(one * np.float32(np.inf), one * np.float32(np.inf)))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_every_element_of_a_small_array_counts(size, dtype):
    one = (2.0 ** np.arange(size)).astype(dtype)
    found = fused_norms(one, -one, 3 * one)
    assert found == pytest.approx((norm(one), 2 * norm(one), 2 * norm(one)), rel=1e-15)


@pytest.mark.parametrize(
    ("one", "other"), [((3,), (300,)), ((3, 2), (1, 0, 3)), ((3000, 7), (3, 7)), ((2,), (20_000,))]
)
def test_arrays_of_shapes_that_do_not_broadcast_are_as_far_apart_as_can_be(one, other):
    assert distance(np.zeros(one), np.zeros(other)) == np.inf


def test_a_number_is_broadcast():
    assert distance(np.zeros((2, 2)), np.float64(1.0)) == 2.0
