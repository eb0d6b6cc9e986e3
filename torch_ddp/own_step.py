"""Runs a training step that the port brings itself, and watches it: losses, gradients and state as of any other step."""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from torch_ddp.backward import Loss, Part
from torch_ddp.combining import Combining
from torch_ddp.errors import TorchDdpError
from torch_ddp.gather import gather
from torch_ddp.group import Rank
from torch_ddp.mixed import Mixed, without_amp
from torch_ddp.port_calls import call_with_inputs, named_outputs
from torch_ddp.port_schedule import PortSchedule
from torch_ddp.step import Stepper
from torch_ddp.traced import array, merged, own_of
from torch_ddp.update import Update


class OwnStepper(Stepper):
    """Trains with the port's own step: ``step(model, optimizer, scheduler, **inputs)`` returns a loss, or it and outputs.

    The step does everything from `zero_grad` to the optimizer's and the scheduler's steps, on one rank's shard; the model is
    wrapped in DDP. What happens inside is caught by hooks: each rank's own gradients before and the combined ones after the
    all-reduce, and what the optimizer is given, with which learning rate, when its `step` begins.

    Args:
      model, loss, optimizer, rank, reduce, update, bucket_cap_mb: as for `Stepper`; of `update` only the averages and the
        rate are used.
      function: the port's step.
      schedule: the port's schedule, whose scheduler the step gets; None where there is none.
      clips: whether what the optimizer is given is recorded as the clipped gradients; in mixed precision it always is.
      mixed: as for `Stepper`; the step itself calls `torch_ddp.amp.scale_loss`.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        optimizer: Optimizer,
        rank: Rank,
        reduce: str | Combining = "mean",
        update: Update | None = None,
        *,
        function: Callable[..., Any],
        schedule: PortSchedule | None = None,
        clips: bool = False,
        mixed: Mixed | None = None,
        bucket_cap_mb: float | None = None,
    ) -> None:
        super().__init__(model, loss, optimizer, rank, reduce, update, mixed, bucket_cap_mb=bucket_cap_mb)
        self._function = function
        self._schedule = schedule
        self._clips = clips or mixed is not None
        self._given: dict[str, np.ndarray] = {}
        optimizer.register_step_pre_hook(self._watch)

    def step(self, batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        """Runs one call of the port's step; arguments and result as for `Stepper`.

        Raises:
          TorchDdpError: the batch does not divide, or the step returns no scalar loss.
        """
        whole = {name: torch.from_numpy(np.array(value)).to(self._device) for name, value in batch.items()}
        inputs = self._shard(whole, self._rank.rank, self._rank.world_size).inputs
        self._reduction.local.clear()
        self._reduction.reduced.clear()
        self._given = {}
        scheduler = self._schedule.scheduler if self._schedule else None
        mark = self._mixed.mark if self._mixed else (1.0, 0)
        given = {"model": self._ddp, "optimizer": self.optimizer, "scheduler": scheduler}
        returned = call_with_inputs("step", self._function, given, inputs)
        loss, outputs = returned if isinstance(returned, tuple) else (returned, {})
        _check_loss(loss)
        # A step that does without amp.scale_loss leaves no scale in its gradients, and the scaler as it was.
        scale = mark[0] if self._mixed and self._mixed.mark != mark else 1.0
        gradients = {name: _unscaled(value, scale) for name, value in self._reduction.local.items()}
        part = Part(str(self._rank.rank), inputs, loss, named_outputs("step", outputs), gradients)
        combined = {f"grad/{name}": array(_unscaled(value, scale)) for name, value in self._reduction.reduced.items()}
        if self._mixed:
            combined["state/skipped"] = np.array(self._mixed.skipped())
        self._global_step += 1
        self._update.move_averages(self._global_step)
        towers = gather(own_of([part]), self._rank, self._device)
        return None if towers is None else self._widened({**merged(towers), **combined, **self._given})

    def running(self) -> contextlib.AbstractContextManager[Any]:
        """Returns what the steps of one run are made in; in full precision amp's calls do nothing."""
        return self._mixed.running() if self._mixed else without_amp()

    def _watch(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._given["state/learning_rate"] = np.array(float(optimizer.param_groups[0]["lr"]), np.float64)
        if self._clips:
            named = self._trained.named_parameters()
            self._given.update((f"clip/{name}", array(p.grad)) for name, p in named if p.grad is not None)


def _unscaled(value: Tensor, scale: float) -> Tensor:
    return value if scale == 1.0 else value.float() / scale


def _check_loss(loss: Any) -> None:
    if isinstance(loss, Tensor) and not loss.ndim:
        return
    got = f"shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
    raise TorchDdpError(
        f"step: expected it to return the loss of its shard, a scalar tensor, or (loss, outputs), got {got}. "
        "Return the loss that backward() was called on."
    )
