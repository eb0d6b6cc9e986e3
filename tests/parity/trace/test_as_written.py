"""Which number a script wrote is read off the float32 that its graph holds of it."""

import math

import numpy as np
import pytest

from parity.trace.as_written import as_written

WRITTEN = [
    *(0.1, 0.999, 1e-8, 0.123456, -0.3, 123.456, 1e-30),  # decimals
    *(math.pi, math.e, -math.pi / 2, 2 * math.pi, math.pi / 4, math.sqrt(2 / math.pi), 1 / math.sqrt(2)),
    *(math.sqrt(3.0), math.log(2.0), 4 * math.log(10.0), math.sqrt(math.pi), math.log(2 * math.pi) / 2),
    *(1 / 3, 2 / 7, -5 / 997, 1000 / 999, 355 / 113),  # fractions
    *(1 / 1234.5, 1 / 7e6),  # one over a decimal
]


@pytest.mark.parametrize("value", WRITTEN)
def test_what_a_script_can_have_written_comes_back_to_the_last_bit(value):
    found = as_written(np.array([[value]], np.float32))
    assert (found.dtype, found.shape) == (np.float64, (1, 1))
    assert found[0, 0] == pytest.approx(value, rel=1e-15, abs=0.0)


@pytest.mark.parametrize("keep", [0.8, 0.9, 0.7, 0.875, 0.333])
def test_a_rate_made_of_a_keep_probability_in_float32_is_one_minus_it(keep):
    rate = np.float32(1.0) - np.float32(keep)
    assert float(as_written(rate)) == pytest.approx(1.0 - keep, rel=1e-15)


@pytest.mark.parametrize(
    "value",
    [
        np.float32(0.7390851332),
        np.float32(1.3247179572),
        np.float32(2345678.25),  # no fraction to be read: its last bit is a quarter
        np.float32(np.pi) * np.float32(3),
        np.float32(1.0) - np.float32(0.87654),  # of a probability of more digits
        *map(np.float32, [0.0, 3.0, -7.0, 1e10, np.inf, -np.inf]),
        # Whole numbers, which one over a decimal and a short decimal round to.
        *map(np.float32, [10275444.0, -7782828.0, 3e38]),
    ],
)
def test_anything_else_is_data_and_stays_as_it_is(value):
    assert as_written(value).tolist() == float(value)
    assert np.isnan(as_written(np.float32(np.nan)))


def test_a_value_that_is_read_rounds_to_the_very_float32_that_it_was_read_off():
    values = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    values[:3] = 0.1, 1 / 3, np.pi
    found = as_written(values)
    assert np.array_equal(found.astype(np.float32), values)
    assert not np.array_equal(found, values.astype(np.float64))


@pytest.mark.parametrize(("count", "read"), [(64, True), (65, False)])
def test_arrays_of_more_than_64_elements_are_data(count, read):
    assert bool(as_written(np.full(count, 0.1, np.float32))[0] == 0.1) is read


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32])
def test_only_float32_has_lost_what_was_written(dtype):
    value = np.array([0.1, 2.0]).astype(dtype)
    assert np.array_equal(as_written(value), value.astype(np.float64))
