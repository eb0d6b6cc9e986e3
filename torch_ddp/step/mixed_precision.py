"""Runs a port in mixed precision at one of Apex's levels, beside runs of the same port in full precision."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from torch_ddp import amp
from torch_ddp.amp.loss_scaler import LossScaler
from torch_ddp.amp.optimizer_state import masters_to_weights, stash_of
from torch_ddp.amp.options import level
from torch_ddp.amp.session import Session, begin, current

WHO = "torch_ddp.Stepper"


class Mixed:
    """Holds what `amp.initialize` made of a model and its optimizer; several ports may be alive, and one of them runs.

    Args:
      model: with float32 weights; changed in place.
      optimizer: over them; changed in place.
      opt_level: "O1", "O2" or "O3".
      half_dtype: "float16" or "bfloat16".

    Attributes:
      trained: the model with the weights that the optimizer steps: float32 masters where there are some.

    Raises:
      AmpError: amp refuses the model or the optimizer.
    """

    def __init__(self, model: nn.Module, optimizer: Optimizer, opt_level: str, half_dtype: str = "float16") -> None:
        amp.initialize(model, optimizer, opt_level=opt_level, half_dtype=getattr(torch, half_dtype), verbosity=0)
        self._session = current(WHO)
        amp.deactivate()
        self._optimizer = optimizer
        scaler = self._scaler
        self._first_scale = scaler.loss_scale
        self.trained = Trained(model, optimizer)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Makes this the session of amp within the block, with a loss scale as at the beginning."""
        begin(self._session)
        # Each run of a comparison starts at the same scale, or a second run would not repeat the first.
        self._scaler.set_state(self._first_scale, 0)
        try:
            yield
        finally:
            amp.deactivate()

    @contextlib.contextmanager
    def scaled(self) -> Iterator[float]:
        """Yields what losses are multiplied by; on leaving, gradients are unscaled and the scale moves."""
        device = next(iter(self.trained.parameters())).device
        # The loss scale times one: micro-batches multiply their losses by it themselves.
        with amp.scale_loss(torch.ones((), device=device), self._optimizer) as factor:
            yield float(factor)

    @property
    def mark(self) -> tuple[float, int]:
        """The loss scale, and how many backward passes it has stood: both change where `scale_loss` is used."""
        # Both: an overflow in the first step leaves the count at 0, a step without one leaves the scale.
        return self._scaler.loss_scale, self._scaler.unskipped

    def state(self) -> dict[str, np.ndarray]:
        """Returns the loss scale as part of a trace's state; empty where it is constant."""
        return {"loss_scale": np.array(self._scaler.loss_scale, np.float64)} if self._scaler.dynamic else {}

    def skipped(self) -> bool:
        """Returns whether the optimizer's last step was skipped because a gradient overflowed."""
        return amp.step_was_skipped(self._optimizer)

    def follow(self) -> None:
        """Rounds the masters into the weights that they stand for."""
        masters_to_weights(stash_of(self._optimizer, WHO))

    @property
    def _scaler(self) -> LossScaler:
        return self._session.scalers[0]


class Trained(nn.Module):
    """Shows a model's names with the tensors that the optimizer steps."""

    def __init__(self, model: nn.Module, optimizer: Optimizer) -> None:
        super().__init__()
        self._shown = (model, optimizer)  # in a tuple, or torch would take the model for a part of this one

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, nn.Parameter]]:
        """Yields the model's parameters by name, masters in the place of half weights."""
        model, optimizer = self._shown
        list(amp.master_params(optimizer))  # makes masters where there are none yet
        masters: dict[int, Any] = {id(weight): master for weight, master in stash_of(optimizer, WHO).pairs}
        for name, weight in model.named_parameters():
            yield name, masters.get(id(weight), weight)

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Tensor]]:
        """Yields the model's buffers by name."""
        yield from self._shown[0].named_buffers()


@contextlib.contextmanager
def without_amp() -> Iterator[None]:
    """Lets a step that calls amp run in full precision: within the block all of amp's calls do nothing."""
    # A session that does nothing rather than none, in which amp's calls would raise an error.
    begin(Session(level("O0"), [], enabled=False))
    yield


def in_float32(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns arrays with half precision widened, which changes no value."""
    return {name: value.astype(np.float32) if value.dtype == np.float16 else value for name, value in tensors.items()}
