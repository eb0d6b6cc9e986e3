"""The precisions a training can have: what each does around forward pass, backward pass and update.

Another one is one more class: it may change net and optimizer before DDP wraps the net, and what it must not forget over
a restart goes into its `parts`, which the checkpoint then holds.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from torch_ddp import amp
from torch_ddp.amp.optimizer_state import stash_of

Gradients = Iterator[tuple[str, Tensor | None]]


class Precision(Protocol):
    """What a training loop wants of a precision.

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

    def gradients(self) -> Gradients:
        """Yields (name, gradient) that must be finite; none where a loss scale skips and lowers itself for the others."""

    def step(self) -> bool:
        """Updates the weights; returns whether it did, and did not skip gradients that overflowed for their scale."""

    def skip(self) -> None:
        """Leaves an update out, after its backward pass."""


class Float32:
    """Casts nothing and scales nothing.

    Args:
      net: with float32 weights.
      optimizer: over those weights.
    """

    def __init__(self, net: nn.Module, optimizer: Optimizer) -> None:
        self.net = net
        self.parts: dict[str, Any] = {}
        self._optimizer = optimizer

    def forward(self) -> contextlib.AbstractContextManager[Any]:
        """Returns nothing to run in."""
        return contextlib.nullcontext()

    def backward(self, loss: Tensor, last: bool) -> None:
        """Adds the gradients as they are."""
        loss.backward()  # type: ignore[no-untyped-call]

    def gradients(self) -> Gradients:
        """Yields all gradients."""
        return ((name, weight.grad) for name, weight in self.net.named_parameters())

    def step(self) -> bool:
        """Updates the weights; returns True."""
        self._optimizer.step()
        return True

    def skip(self) -> None:
        """Leaves the gradients to the next `zero_grad`."""
        # A schedule looks for it, and warns of a first update that was left out.
        self._optimizer._opt_called = True  # type: ignore[attr-defined]


class Autocast(Float32):
    """Runs the forward pass under torch's autocast, with torch's GradScaler for float16; bfloat16 has float32's range.

    Args:
      net: with float32 weights.
      optimizer: over those weights.
      device: where they are.
      half: torch.float16 or torch.bfloat16.
    """

    def __init__(self, net: nn.Module, optimizer: Optimizer, device: torch.device, half: torch.dtype) -> None:
        super().__init__(net, optimizer)
        self._device = device
        self._half = half
        self._scaler = torch.amp.GradScaler(device.type, enabled=half is torch.float16)
        if self._scaler.is_enabled():
            self.parts = {"scaler": self._scaler}

    def forward(self) -> contextlib.AbstractContextManager[Any]:
        """Returns torch's autocast."""
        return torch.autocast(self._device.type, self._half)

    def backward(self, loss: Tensor, last: bool) -> None:
        """Adds the gradients, scaled in float16."""
        self._scaler.scale(loss).backward()  # type: ignore[no-untyped-call]

    def gradients(self) -> Gradients:
        """Yields all gradients in bfloat16; in float16 the scaler looks at them."""
        return iter(()) if self._scaler.is_enabled() else super().gradients()

    def step(self) -> bool:
        """Updates the weights; returns whether no gradient overflowed."""
        before = self._scaler.get_scale()
        self._scaler.step(self._optimizer)
        self._scaler.update()
        return self._scaler.get_scale() >= before


class Amp(Float32):
    """Trains at one of Apex's levels: half-precision arithmetic, float32 masters, a loss scale.

    Its part of the checkpoint holds the loss scale and the masters. The part is named after level and half precision, so
    that a resume with others is refused: it would be another training.

    Args:
      net: with float32 weights; changed in place.
      optimizer: over those weights; changed in place.
      level: "O0" to "O3".
      half: torch.float16 or torch.bfloat16.
    """

    def __init__(self, net: nn.Module, optimizer: Optimizer, level: str, half: torch.dtype) -> None:
        net, optimizer = amp.initialize(net, optimizer, opt_level=level, half_dtype=half, verbosity=0)
        super().__init__(net, optimizer)
        self.parts = {f"amp {level} {str(half).removeprefix('torch.')}": amp}
        # The others' scale is 1 throughout, and nobody looks at their gradients.
        self._skips_overflows = level in ("O1", "O2") and half is torch.float16

    def backward(self, loss: Tensor, last: bool) -> None:
        """Adds the gradients, scaled until the last of an update."""
        # Gradients unscaled before the last piece would be set aside, and DDP would not reduce them.
        with amp.scale_loss(loss, self._optimizer, delay_unscale=not last) as scaled_loss:
            scaled_loss.backward()  # type: ignore[no-untyped-call]

    def gradients(self) -> Gradients:
        """Yields all gradients where there is no dynamic loss scale."""
        return iter(()) if self._skips_overflows else super().gradients()

    def step(self) -> bool:
        """Updates the weights; returns whether no gradient overflowed."""
        self._optimizer.step()
        return not amp.step_was_skipped(self._optimizer)

    def skip(self) -> None:
        """Forgets that the gradients overflowed, as those of a NaN do: the next step is another update's."""
        super().skip()
        stash_of(self._optimizer, "train").skip_message = None


def make_precision(
    net: nn.Module,
    optimizer: Optimizer,
    device: torch.device,
    name: str = "float32",
    opt_level: str | None = None,
    half: str = "float16",
) -> Precision:
    """Returns a precision by its name; net and optimizer may be changed in place.

    Args:
      net: with float32 weights.
      optimizer: over those weights.
      device: where they are.
      name: "float32", or "float16" and "bfloat16" for torch's autocast.
      opt_level: "O0" to "O3" for Apex's levels in its place, or None.
      half: "float16" or "bfloat16": what half precision is at these levels.
    """
    if opt_level:
        return Amp(net, optimizer, opt_level, getattr(torch, half))
    return Float32(net, optimizer) if name == "float32" else Autocast(net, optimizer, device, getattr(torch, name))
