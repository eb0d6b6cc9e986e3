"""Has what torch approximates to float32's precision compute float64 exactly, so that a run in float64 proves something."""

import functools
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

TORCH_THRESHOLD = 20.0  # beyond it torch's softplus is its argument itself, 2e-9 off there: nothing in float32
EXACT_THRESHOLD = 40.0  # exp(-40) = 4e-18 is less than half a unit in the last place of float64


def compute_softplus_exactly() -> None:
    """Has `torch.nn.functional.softplus` compute float64 exactly, whoever calls it from now on; does nothing a second time.

    A threshold that its caller chose stays, and so do other dtypes.
    """
    original = functional.softplus
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def softplus(input: Tensor, beta: float = 1.0, threshold: float = TORCH_THRESHOLD, **named: Any) -> Tensor:
        exact = threshold == TORCH_THRESHOLD and input.dtype == torch.float64
        return original(input, beta, EXACT_THRESHOLD if exact else threshold, **named)

    functional.softplus = softplus
