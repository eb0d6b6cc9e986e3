"""Tells whether values went through a narrower float than they are stored in."""

import numpy as np

from parity.judge.metrics import Array

BITS = {"bfloat16": 8, "float16": 11, "float32": 24}
SPARE = 3  # bits that one rounded value in eight leaves unused


def narrow_format(values: Array, others: Array) -> str:
    """Returns the narrowest float that all of `values` fit and `others` do not; "" where there is none.

    Ones and halves fit any float without having been rounded to it: half of the values at least have to use its last bits.

    Args:
      values: any shape, float64.
      others: what they are compared with: values that fit anyhow, such as zeros and ones, say nothing.
    """
    told = values[values != 0]
    for name, bits in BITS.items():
        if told.size and _fitting(told, bits) == 1.0 and _fitting(others, bits) < 1.0:
            return name if _fitting(told, bits - SPARE) <= 0.5 else ""
    return ""


def _fitting(values: Array, bits: int) -> float:
    mantissa, _ = np.frexp(values)
    return float((np.ldexp(mantissa, bits) % 1 == 0).mean())
