"""Runs a training step that the port brings itself, and watches it as any other step."""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from parity.trace import LEARNING_RATE, SKIPPED
from torch_ddp.errors import TorchDdpError
from torch_ddp.reduction import Reduction
from torch_ddp.shard import Shard
from torch_ddp.step.backward import Part
from torch_ddp.step.gradient_exchange import GradientObserver, GradientWatch, Sharing
from torch_ddp.step.gradients import GradientReduction
from torch_ddp.step.mixed_precision import without_amp
from torch_ddp.step.one_step import Recorded
from torch_ddp.step.trace_names import named_gradients
from torch_ddp.step.training_state import TrainingState
from torch_ddp.step.user_calls import call_with_inputs, named_outputs
from torch_ddp.worker.user_schedule import PortSchedule


class UserStep:
    """Makes updates by the port's own ``step(model, optimizer, scheduler, **inputs)``, which returns loss and outputs.

    The step does everything from `zero_grad` to the optimizer's and the scheduler's steps, on one rank's shard; the model is
    wrapped in DDP, by the port itself or by the tool, and then as torch does it, which averages. What happens inside is
    watched: each rank's own gradients before any exchange, what the last backward pass leaves, and what the optimizer is
    given, with which learning rate, when its `step` begins. What a step sends to other ranks is its own affair: it may clip
    and divide before or after, in a hook or flattened, so that only what comes of it can be compared.

    Args:
      model: wrapped.
      state: what the step moves; of its update only the averages and the rate are used, and in mixed precision the step
        itself calls `torch_ddp.amp.scale_loss`.
      function: the port's step.
      schedule: the port's schedule, whose scheduler the step gets; None where there is none.
      clips: where the reference clips: "combined", and then what the optimizer is given is recorded as the clipped
        gradients (in mixed precision always), "tower", or "" for nowhere.
      reduction: what a wrapper that the tool made does with gradients instead of averaging, where that is declared.

    Attributes:
      combination: who combines the ranks' gradients: "port" or "tool".
      unobserved: quantities that these steps do not show.
    """

    def __init__(
        self,
        model: DistributedDataParallel,
        state: TrainingState,
        function: Callable[..., Any],
        schedule: PortSchedule | None = None,
        clips: str = "",
        reduction: str | None = None,
    ) -> None:
        self._model = model
        self._state = state
        self._function = function
        self._schedule = schedule
        self._clips_combined = clips == "combined" or state.mixed is not None
        if reduction:
            GradientReduction(model, cast("Reduction", reduction))
        self.combination = "tool" if reduction else "port"
        self.unobserved: set[str] = {"tower_clip"} if clips == "tower" or state.update.clips_ranks else set()
        self._watch = GradientWatch(dict(model.module.named_parameters()))
        self._sharing = Sharing(model)
        self._observer = GradientObserver(state.trained, state.optimizer)

    def running(self) -> contextlib.AbstractContextManager[Any]:
        """Returns what the steps of one run are made in; in full precision amp's calls do nothing."""
        return self._state.mixed.running() if self._state.mixed else without_amp()

    def give(self, outputs: Mapping[str, Mapping[str, Tensor]], cut: bool) -> None:
        """Takes no outputs: which of the step's calls makes one is not known before the step has moved the weights.

        Raises:
          TorchDdpError: there are some.
        """
        if any(outputs.values()):
            raise TorchDdpError(
                "given: expected a port whose loss the tool calls, got one with a step of its own, whose outputs cannot be "
                "replaced. Leave them out."
            )

    def make(self, own: Shard, rank: int) -> Recorded:
        """Makes one call of the port's step and returns what was seen of it.

        Raises:
          TorchDdpError: the step returns no scalar loss.
        """
        state, mixed = self._state, self._state.mixed
        self._observer.forget()
        # Whether a forward pass of this step would share is asked of DDP, in `_combined`.
        self._sharing.armed = False
        # Scale and count before the step: what the step scaled its loss by, and whether it did at all.
        mark = mixed.mark if mixed else (1.0, 0)
        scheduler = self._schedule.scheduler if self._schedule else None
        given = {"model": self._model, "optimizer": state.optimizer, "scheduler": scheduler}
        with self._watch.watching():
            returned = call_with_inputs("step", self._function, given, own.inputs)
        loss, outputs = returned if isinstance(returned, tuple) else (returned, {})
        _check_loss(loss)
        # A step that does without amp.scale_loss leaves no scale in its gradients, and the scaler as it was.
        scale = mark[0] if mixed and mixed.mark != mark else 1.0
        gradients = {name: _unscaled(value, scale) for name, value in self._watch.local.items()}
        part = Part(str(rank), own.inputs, loss, named_outputs("step", outputs), gradients)
        combined = self._combined(scale)
        if mixed:
            combined[SKIPPED] = np.array(mixed.skipped())
        # Counted here: a port's own step has no name for it, and averages with num_updates need it.
        state.count_update()
        state.update.move_averages(state.global_step)
        return Recorded([part], combined)

    def _combined(self, scale: float) -> dict[str, np.ndarray]:
        found: dict[str, np.ndarray] = {}
        if self._observer.rate is not None:
            found[LEARNING_RATE] = np.array(self._observer.rate, np.float64)
        # A step that never updates still leaves gradients; they are all that there is to record.
        given = self._watch.present() if self._observer.given is None else self._observer.given
        if not self._clips_combined:
            # The reference does nothing to combined gradients: whatever the step does is part of how it combines them.
            return {**found, **named_gradients("grad", given)}
        found.update(named_gradients("clip", self._observer.given or {}))
        if self._sharing.armed:
            unscaled = {name: _unscaled(value, scale) for name, value in self._watch.reduced.items()}
            return {**found, **named_gradients("grad", unscaled)}
        self.unobserved.add("grad")  # combined somewhere between the backward pass and the clipping
        return found


def _unscaled(value: Tensor, scale: float) -> Tensor:
    # In float32, for the quotient of a half gradient may vanish in half precision.
    return value if scale == 1.0 else value.float() / scale


def _check_loss(loss: Any) -> None:
    if isinstance(loss, Tensor) and not loss.ndim:
        return
    got = f"shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
    raise TorchDdpError(
        f"step: expected it to return the loss of its shard, a scalar tensor, or (loss, outputs), got {got}. "
        "Return the loss that backward() was called on."
    )
