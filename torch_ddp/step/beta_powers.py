"""A beta whose powers are those of TensorFlow's graph."""

from typing import Any

import numpy as np
import torch
from torch import Tensor


class Float32Beta(float):
    """A decay rate rounded to float32, whose whole powers are multiplied up in float32.

    TensorFlow's Adam keeps ``beta1_power`` and ``beta2_power`` in float32 variables, for float64 weights too, and multiplies
    them by beta after each update. With ``beta ** step`` rounded once, ``1 - 0.999 ** 2`` is off by 1e-5 of itself.
    Source: tensorflow/python/training/adam.py, 1.15.

    Args:
        value: the rate, rounded to float32 here.
    """

    def __new__(cls, value: float) -> "Float32Beta":
        """Rounds the rate."""
        return super().__new__(cls, np.float32(value))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles as what it is."""
        return type(self), (float(self),)

    def __pow__(self, exponent: Any, modulus: None = None) -> Any:
        """Returns a power: a float, or a tensor of the exponent's dtype and shape where that is one."""
        if isinstance(exponent, Tensor):
            if exponent.numel() == 1 and _is_whole(float(exponent)):
                return exponent.new_full(exponent.shape, self._power(int(exponent)), dtype=_dtype_of_power(exponent))
            return torch.pow(float(self), exponent)
        if isinstance(exponent, int | float) and _is_whole(float(exponent)):
            return self._power(int(exponent))
        return float(self) ** exponent

    def _power(self, exponent: int) -> float:
        # Rounded after every product, as the variable is: a step at a time, for as many steps as a run has.
        power = beta = np.float32(self)
        for _ in range(exponent - 1):
            power = power * beta
        return float(power) if exponent else 1.0


def _is_whole(exponent: float) -> bool:
    return exponent >= 0.0 and exponent.is_integer()


def _dtype_of_power(exponent: Tensor) -> torch.dtype:
    return exponent.dtype if exponent.is_floating_point() else torch.get_default_dtype()
