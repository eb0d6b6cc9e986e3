"""The precisions that the trainer offers: what each does around forward pass, backward pass and update.

Another one, with a loss scale or master weights, is one more class in the table; what it must not forget over a restart
goes into its `parts`, which the checkpoint then holds.
"""

import contextlib
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.optim import Optimizer


class Precision(Protocol):
    """What the trainer asks of a precision."""

    parts: dict[str, Any]

    def forward(self) -> contextlib.AbstractContextManager[Any]:
        """Returns what the forward pass runs in."""

    def backward(self, loss: Tensor) -> None:
        """Adds the loss's gradients to what the parameters have."""

    def step(self) -> None:
        """Updates the weights."""


class Float32:
    """Casts nothing and scales nothing."""

    def __init__(self, optimizer: Optimizer, device: torch.device) -> None:
        self.parts: dict[str, Any] = {}
        self._optimizer = optimizer

    def forward(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def backward(self, loss: Tensor) -> None:
        loss.backward()

    def step(self) -> None:
        self._optimizer.step()


class BFloat16(Float32):
    """Runs the forward pass under torch's autocast; bfloat16 has float32's range and needs no loss scale."""

    def __init__(self, optimizer: Optimizer, device: torch.device) -> None:
        super().__init__(optimizer, device)
        self._device = device

    def forward(self) -> contextlib.AbstractContextManager[Any]:
        return torch.autocast(self._device.type, torch.bfloat16)


PRECISIONS = {"float32": Float32, "bfloat16": BFloat16}
