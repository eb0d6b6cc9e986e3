"""Tells whether values went through a narrower float than they are stored in."""

import numpy as np

from parity.judge.numbers import Array

BITS = {"bfloat16": 8, "float16": 11, "float32": 24}


def narrow_format(values: Array, others: Array) -> str:
    """Returns the narrowest float that all of `values` fit and `others` do not; "" where there is none.

    Args:
      values: any shape, float64.
      others: what they are compared with: values that fit anyhow, such as zeros and ones, say nothing.
    """
    if not values.any():
        return ""
    return next((name for name, bits in BITS.items() if _fits(values, bits) and not _fits(others, bits)), "")


def _fits(values: Array, bits: int) -> bool:
    mantissa, _ = np.frexp(values)
    return bool((np.ldexp(mantissa, bits) % 1 == 0).all())
