"""Follows loss scales: which loss was multiplied by what, and which optimizer's step was left out for it.

Counterpart of what a program does with torch.amp.GradScaler, torch_ddp.amp and Apex.
"""

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from parity.trace import LOSS_SCALE, SKIPPED
from torch_ddp.step.trace_names import array


class LossScales:
    """The loss scales of a process."""

    def __init__(self) -> None:
        # By id, with a weak reference beside it: an id is used again once its tensor is gone.
        self._scaled: dict[int, tuple[Any, np.ndarray, float]] = {}
        self._of_optimizer: dict[int, float] = {}
        self.last: float | None = None

    def scaled(self, loss: Tensor, product: Tensor, scale: float) -> None:
        """Takes a loss and what a scale has made of it."""
        # What is gone is dropped here: one entry for each loss would stay otherwise, for as long as the program trains.
        self._scaled = {key: each for key, each in self._scaled.items() if each[0]() is not None}
        self._scaled[id(product)] = weakref.ref(product), array(loss), scale
        self.last = scale

    def of(self, tensors: Sequence[Tensor]) -> float:
        """Returns what the losses that backward is called on were multiplied by."""
        return next((known[2] for each in tensors if (known := self._known(each)) is not None), 1.0)

    def unscaled(self, tensors: Sequence[Tensor]) -> np.ndarray:
        """Returns the sum of the losses that backward is called on, without scale: array []."""
        # The loss as it was before the product: dividing that again would round once more, or divide infinity.
        values = [known[1] if (known := self._known(each)) is not None else array(each) for each in tensors]
        return np.asarray(sum(np.sum(each, dtype=each.dtype) for each in values))

    def state(self, optimizer: Optimizer, skipped: bool = False) -> dict[str, np.ndarray]:
        """Returns the loss scale of a step and whether it was left out, by trace name; nothing without a scale."""
        if self.last is None:
            return {}
        return {LOSS_SCALE: np.array(self.last, np.float64), SKIPPED: np.array(skipped)}

    def _known(self, tensor: Tensor) -> tuple[Any, np.ndarray, float] | None:
        known = self._scaled.get(id(tensor))
        return known if known is not None and known[0]() is tensor else None


def unscaled_gradient(optimizer: Optimizer, gradient: Tensor) -> Tensor:
    """Returns a gradient without the scale that a fused optimizer divides it by within its own step."""
    # GradScaler sets it right before it calls the step of an optimizer that unscales in its own kernel, and to None
    # where the program called unscale_; others have no such attribute, and gradients that GradScaler has divided
    # already.
    scale = getattr(optimizer, "grad_scale", None)
    with torch.no_grad():
        return gradient / scale if isinstance(scale, Tensor) else gradient
