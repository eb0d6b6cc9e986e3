"""Reads float32 constants as a script wrote them: 0.1, not the float32 nearest to it."""

import fractions
import math
from typing import Any, Iterator

import numpy as np

from parity.trace.arrays import Array

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
# As in 2 pi, pi / 2 or 1 / sqrt(2): each number is tried times a factor and below it.
FACTORS = (1.0, 2.0, 0.5, 0.25, 4.0)
# Every decimal of six digits comes back from float32, for 10^6 < 2^23; of seven digits not every one does.
DIGITS = 6
# Of keep_prob, whose complement TensorFlow rounds once more: 1 - float32(0.8) is not float32(0.2).
KEEP_DIGITS = 3
DENOMINATOR = 1000
# Of 20,000 random float32 numbers 7 to 9 % are of one of these forms by chance: so only what is short enough to have
# been typed is read. A number that is misread moves by less than its last bit in float32, half an ulp.
LARGEST_WRITTEN_OUT = 64


def as_written(array: Any) -> Array:
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
    if np.asarray(array).dtype != np.float32 or wide.size > LARGEST_WRITTEN_OUT:
        return wide
    read = [_read(value) for value in np.asarray(array).ravel()]
    return np.array(read, np.float64).reshape(wide.shape)


def _read(value: Any) -> float:
    # Whole numbers are exact in float32, or data.
    if not np.isfinite(value) or float(value).is_integer():
        return float(value)
    # The most usual form first: 0.1 is also 1 / 10, and every form has to round to the very float32.
    for found in _guesses(value):
        if np.float32(found) == value:
            return found
    return _from_keep_probability(value)


def _from_keep_probability(value: Any) -> float:
    keep = round(1.0 - float(value), KEEP_DIGITS)
    if 0.0 < keep < 1.0 and np.float32(1.0) - np.float32(keep) == value:
        return 1.0 - keep
    return float(value)


def _guesses(value: Any) -> Iterator[float]:
    yield float("%.*g" % (DIGITS, value))
    for number in IRRATIONAL:
        for factor in FACTORS:
            for one in (number * factor, factor / number):
                yield math.copysign(one, value)
    # At 10^6 the last bit of float32 is 1/16: there is no fraction to be read.
    if abs(float(value)) < 1e6:
        yield float(fractions.Fraction(float(value)).limit_denominator(DENOMINATOR))
    try:
        yield 1.0 / float("%.*g" % (DIGITS, 1.0 / float(value)))
    except (OverflowError, ZeroDivisionError):
        return
