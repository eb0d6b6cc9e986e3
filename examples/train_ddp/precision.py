"""The precisions that the trainer offers: what each does around forward pass, backward pass and update.

Another one is one more class: it may change net and optimizer before DDP wraps the net, and what it must not forget over
a restart goes into its `parts`, which the checkpoint then holds.
"""

import argparse
import contextlib
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from torch_ddp import amp


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

    def backward(self, loss: Tensor, last: bool) -> None:
        """Adds the loss's gradients to what the parameters have; `last` before an update, when DDP reduces them."""

    def step(self) -> bool:
        """Updates the weights; returns whether it did, and did not skip gradients that overflowed for their scale."""


class Float32:
    """Casts nothing and scales nothing."""

    def __init__(self, net: nn.Module, optimizer: Optimizer, device: torch.device) -> None:
        self.net = net
        self.parts: dict[str, Any] = {}
        self._optimizer = optimizer

    def forward(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def backward(self, loss: Tensor, last: bool) -> None:
        loss.backward()

    def step(self) -> bool:
        self._optimizer.step()
        return True


class BFloat16(Float32):
    """Runs the forward pass under torch's autocast; bfloat16 has float32's range and needs no loss scale."""

    def __init__(self, net: nn.Module, optimizer: Optimizer, device: torch.device) -> None:
        super().__init__(net, optimizer, device)
        self._device = device

    def forward(self) -> contextlib.AbstractContextManager[Any]:
        return torch.autocast(self._device.type, torch.bfloat16)


class Amp(Float32):
    """Trains at one of Apex's levels: half-precision arithmetic, float32 masters, a loss scale.

    Its part of the checkpoint holds the loss scale and the masters. The part is named after level and half precision, so
    that a resume with others is refused: it would be another training.

    Args:
      net: with float32 weights; changed in place.
      optimizer: over those weights; changed in place.
      device: where they are.
      level: "O0" to "O3".
      half: "float16" or "bfloat16".
    """

    def __init__(self, net: nn.Module, optimizer: Optimizer, device: torch.device, level: str, half: str) -> None:
        net, optimizer = amp.initialize(net, optimizer, opt_level=level, half_dtype=getattr(torch, half), verbosity=0)
        super().__init__(net, optimizer, device)
        self.parts = {f"amp {level} {half}": amp}

    def backward(self, loss: Tensor, last: bool) -> None:
        # Gradients unscaled before the last piece would be set aside, and DDP would not reduce them.
        with amp.scale_loss(loss, self._optimizer, delay_unscale=not last) as scaled_loss:
            scaled_loss.backward()

    def step(self) -> bool:
        self._optimizer.step()
        return not amp.step_was_skipped(self._optimizer)


PRECISIONS = {"float32": Float32, "bfloat16": BFloat16}


def make_precision(
    options: argparse.Namespace, net: nn.Module, optimizer: Optimizer, device: torch.device
) -> Precision:
    """Returns what the options ask for; net and optimizer may be changed in place."""
    if options.opt_level:
        return Amp(net, optimizer, device, options.opt_level, options.half_dtype or "float16")
    return PRECISIONS[options.precision](net, optimizer, device)
