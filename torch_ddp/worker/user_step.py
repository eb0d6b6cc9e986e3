"""Runs a training step that the port brings itself, and watches it as any other step."""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from parity.trace import LEARNING_RATE, SKIPPED
from torch_ddp.errors import TorchDdpError
from torch_ddp.gather import gather
from torch_ddp.process_group import Rank
from torch_ddp.reduction import Reduction
from torch_ddp.step.backward import Loss, Part
from torch_ddp.step.combine import Combining
from torch_ddp.step.gradient_exchange import GradientWatch, Sharing
from torch_ddp.step.gradients import GradientReduction
from torch_ddp.step.mixed_precision import Mixed, without_amp
from torch_ddp.step.stepper import Stepper, merged, named_gradients, own_of
from torch_ddp.step.update import Update
from torch_ddp.step.user_calls import call_with_inputs, named_outputs
from torch_ddp.worker.user_schedule import PortSchedule


class OwnStepper(Stepper):
    """Trains with the port's own step: ``step(model, optimizer, scheduler, **inputs)`` returns a loss, or it and outputs.

    The step does everything from `zero_grad` to the optimizer's and the scheduler's steps, on one rank's shard; the model is
    wrapped in DDP, by the port itself or here, and then as torch does it, which averages. What happens inside is watched:
    each rank's own gradients before any exchange, what the last backward pass leaves, and what the optimizer is given, with
    which learning rate, when its `step` begins. What a step sends to other ranks is its own affair: it may clip and divide
    before or after, in a hook or flattened, so that only what comes of it can be compared.

    Args:
      model, loss, optimizer, rank, update, bucket_cap_mb, wrapper: as for `Stepper`; of `update` only the averages and the
        rate are used.
      reduce: what the wrapper that is made here does with gradients instead of averaging, where that is declared; else
        `Combining`, of which only `uneven` counts.
      function: the port's step.
      schedule: the port's schedule, whose scheduler the step gets; None where there is none.
      clips: where the reference clips: "combined", and then what the optimizer is given is recorded as the clipped
        gradients (in mixed precision always), "tower", or "" for nowhere.
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
        clips: str = "",
        mixed: Mixed | None = None,
        bucket_cap_mb: float | None = None,
        wrapper: DistributedDataParallel | None = None,
    ) -> None:
        wrapped = wrapper or DistributedDataParallel(model, bucket_cap_mb=bucket_cap_mb)
        super().__init__(model, loss, optimizer, rank, reduce, update, mixed, wrapper=wrapped)
        if self._combining.reduce != "mean" and wrapper is None:
            GradientReduction(wrapped, cast("Reduction", self._combining.reduce))
            self.combination = "tool"
        self._function = function
        self._schedule = schedule
        self._clips_combined = clips == "combined" or mixed is not None
        self.unobserved |= {"tower_clip"} if clips == "tower" else set()
        self._watch = GradientWatch(dict(model.named_parameters()))
        self._sharing = Sharing(wrapped)
        self._given: dict[str, Tensor] | None = None
        self._rate: float | None = None
        optimizer.register_step_pre_hook(self._at_update)

    def step(self, batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        """Runs one call of the port's step; arguments and result as for `Stepper`.

        Raises:
          TorchDdpError: the batch does not divide, or the step returns no scalar loss.
        """
        whole = {name: torch.from_numpy(np.array(value)).to(self._device) for name, value in batch.items()}
        inputs = self._shard(whole, self._rank.rank, self._rank.world_size).inputs
        self._given, self._rate, self._sharing.armed = None, None, False
        scheduler = self._schedule.scheduler if self._schedule else None
        mark = self._mixed.mark if self._mixed else (1.0, 0)
        given = {"model": self._ddp, "optimizer": self.optimizer, "scheduler": scheduler}
        with self._watch.watching():
            returned = call_with_inputs("step", self._function, given, inputs)
        loss, outputs = returned if isinstance(returned, tuple) else (returned, {})
        _check_loss(loss)
        # A step that does without amp.scale_loss leaves no scale in its gradients, and the scaler as it was.
        scale = mark[0] if self._mixed and self._mixed.mark != mark else 1.0
        gradients = {name: _unscaled(value, scale) for name, value in self._watch.local.items()}
        part = Part(str(self._rank.rank), inputs, loss, named_outputs("step", outputs), gradients)
        combined = self._combined(scale)
        if self._mixed:
            combined[SKIPPED] = np.array(self._mixed.skipped())
        self._global_step += 1
        self._update.move_averages(self._global_step)
        towers = gather(own_of([part]), self._rank, self._device)
        return None if towers is None else self._widened({**merged(towers), **combined})

    def running(self) -> contextlib.AbstractContextManager[Any]:
        """Returns what the steps of one run are made in; in full precision amp's calls do nothing."""
        return self._mixed.running() if self._mixed else without_amp()

    def _combined(self, scale: float) -> dict[str, np.ndarray]:
        found: dict[str, np.ndarray] = {}
        if self._rate is not None:
            found[LEARNING_RATE] = np.array(self._rate, np.float64)
        given = self._watch.present() if self._given is None else self._given
        if not self._clips_combined:
            # The reference does nothing to combined gradients: whatever the step does is part of how it combines them.
            return {**found, **named_gradients("grad", given)}
        found.update(named_gradients("clip", {} if self._given is None else given))
        if self._sharing.armed:
            unscaled = {name: _unscaled(value, scale) for name, value in self._watch.reduced.items()}
            return {**found, **named_gradients("grad", unscaled)}
        self.unobserved.add("grad")  # combined somewhere between the backward pass and the clipping
        return found

    def _at_update(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._rate = float(optimizer.param_groups[0]["lr"])
        named = self._trained.named_parameters()
        self._given = {name: p.grad.detach().clone() for name, p in named if p.grad is not None}


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


# Runs training steps as `Stepper` does, and records what the optimizer makes of the gradients before it updates.


class WatchedStepper(Stepper):
    """Trains with an optimizer that may change the gradients first: clip them, or scale some of them.

    What counts is what its hooks leave; where these leave everything as it was, what its step does in place.

    Args:
      arguments: as for `Stepper`.
      given: the quantity under which a trace has what the optimizer works with: "clip", or "grad" where the other side
        clips nothing, so that whatever is done to the gradients is part of how they are combined.
    """

    def __init__(self, *arguments: Any, given: Literal["grad", "clip"]) -> None:
        super().__init__(*arguments)
        self._quantity = given
        self._hooked: dict[str, np.ndarray] = {}
        self.optimizer.register_step_pre_hook(self._watch)

    def step(self, batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        """Runs one update; arguments and result as for `Stepper`."""
        self._hooked = {}
        recorded = super().step(batch)
        if recorded is None:
            return None
        changed = any(not np.array_equal(value, recorded.get(name, value)) for name, value in self._hooked.items())
        given = self._hooked if changed else self._gradients()
        renamed = {name.replace("grad", self._quantity, 1): value for name, value in given.items()}
        others = {name: value for name, value in recorded.items() if not name.startswith(f"{self._quantity}/")}
        return {**others, **renamed}

    def _watch(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._hooked = self._gradients()

    def _gradients(self) -> dict[str, np.ndarray]:
        named = self._trained.named_parameters()
        return named_gradients("grad", {name: p.grad for name, p in named if p.grad is not None})
