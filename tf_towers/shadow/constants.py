"""Reads float32 constants as a script wrote them: 0.1, not the float32 nearest to it."""

import fractions
import math

import numpy as np

IRRATIONAL = (
    math.pi,
    math.e,
    math.sqrt(2.0),
    math.sqrt(2.0 / math.pi),
    math.sqrt(math.pi),
    math.sqrt(3.0),
    math.log(2.0),
    math.log(10.0),
    math.log(2.0 * math.pi),
)
FACTORS = (1.0, 2.0, 0.5, 0.25, 4.0)
DIGITS = 6
KEEP_DIGITS = 3
DENOMINATOR = 1000
MOST_ELEMENTS = 64


def as_written(array):
    """Returns float64 numbers that round to the given float32 ones and that a script may have written.

    A graph in float64 would hold what the script wrote; the recorded one holds it rounded to float32. Taken are, where they
    round to the very float32: decimals of up to six digits, well-known irrational numbers, and fractions with
    denominators up to 1000. A rate that TensorFlow made in float32 of a keep probability of up to three digits (0.19999999
    of keep_prob=0.8) is one minus that probability. Anything else, and any array of more than 64 elements, is data and stays
    as it is.

    Args:
      array: float32, any shape.
    """
    wide = np.asarray(array).astype(np.float64)
    if np.asarray(array).dtype != np.float32 or wide.size > MOST_ELEMENTS:
        return wide
    read = [_read(value) for value in np.asarray(array).ravel()]
    return np.array(read, np.float64).reshape(wide.shape)


def _read(value):
    if not np.isfinite(value) or float(value).is_integer():
        return float(value)
    for found in _guesses(value):
        if np.float32(found) == value:
            return found
    return _from_keep_probability(value)


def _from_keep_probability(value):
    keep = round(1.0 - float(value), KEEP_DIGITS)
    if 0.0 < keep < 1.0 and np.float32(1.0) - np.float32(keep) == value:
        return 1.0 - keep
    return float(value)


def _guesses(value):
    yield float("%.*g" % (DIGITS, value))
    for number in IRRATIONAL:
        for factor in FACTORS:
            for one in (number * factor, factor / number):
                yield math.copysign(one, value)
    if abs(float(value)) < 1e6:
        yield float(fractions.Fraction(float(value)).limit_denominator(DENOMINATOR))
    try:
        yield 1.0 / float("%.*g" % (DIGITS, 1.0 / float(value)))
    except (OverflowError, ZeroDivisionError):
        return
