"""The precisions that the trainer offers: what each does around forward pass, backward pass and update.

Another one, with half-precision weights, masters or a loss scale, is one more class in the table: it may change net and
optimizer before DDP wraps the net, and what it must not forget over a restart goes into its `parts`, which the
checkpoint then holds.
"""

import contextlib
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


class Precision(Protocol):
    """What the trainer asks of a precision.

    Attributes:
      net: what DDP shall wrap.
      parts: dict of name to what a checkpoint must hold besides net, optimizer and schedule.
    """

    net: nn.Module
    parts: dict[str, Any]

    def forward(self) -> contextlib.AbstractContextManager[Any]:
        """Returns what the forward pass runs in."""

    def backward(self, loss: Tensor) -> None:
        """Adds the loss's gradients to what the parameters have."""

    def step(self) -> None:
        """Updates the weights."""


class Float32:
    """Casts nothing and scales nothing."""

    def __init__(self, net: nn.Module, optimizer: Optimizer, device: torch.device) -> None:
        self.net = net
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

    def __init__(self, net: nn.Module, optimizer: Optimizer, device: torch.device) -> None:
        super().__init__(net, optimizer, device)
        self._device = device

    def forward(self) -> contextlib.AbstractContextManager[Any]:
        return torch.autocast(self._device.type, torch.bfloat16)


PRECISIONS = {"float32": Float32, "bfloat16": BFloat16}
