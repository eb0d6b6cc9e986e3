"""What stands around optimizer.step: decay, clipping, averages of the weights, loss scale."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from torch_ddp import like_tf
from torch_ddp.errors import TorchDdpError
from torch_ddp.step.learning_rate import make_schedule


class LossScale:
    """A loss scale: a constant, or one that falls when a combined gradient is not finite and grows after a while.

    A dynamic one is a float32, as TensorFlow's graph holds it, whatever the precision of the model.

    Args:
      description: a number, or dict with `initial`, `growth_interval` (good steps in a row before it grows) and `factor`;
        None for no scale at all.

    Attributes:
      value: what losses are multiplied by and gradients divided by; 1 where there is no scale.
      dynamic: whether steps with gradients that are not finite are skipped.

    Counterpart: tf_towers.LossScale
    """

    def __init__(self, description: float | Mapping[str, Any] | None = None) -> None:
        self.dynamic = isinstance(description, Mapping)
        table: Mapping[str, Any] = description if isinstance(description, Mapping) else {"initial": description or 1.0}
        initial = table.get("initial", 32768.0)
        # A float32 variable of the graph, where it moves.
        self.value = float(np.float32(initial)) if self.dynamic else float(initial)
        self._good = 0
        self._interval = int(table.get("growth_interval", 2000))
        self._factor = np.float32(table.get("factor", 2.0))

    def state(self) -> dict[str, np.ndarray]:
        """Returns what a dynamic scale carries from step to step; empty for a constant."""
        if not self.dynamic:
            return {}
        return {"loss_scale": np.array(self.value, np.float32), "good_steps": np.array(self._good, np.int32)}

    def load(self, state: Mapping[str, Any]) -> None:
        """Overwrites what `state` returns, as far as it is given; a constant stays what it is."""
        if self.dynamic:
            self.value = float(state.get("loss_scale", self.value))
            self._good = int(state.get("good_steps", self._good))

    def move(self, finite: bool) -> None:
        """Moves a dynamic scale after a step; `finite` says whether its combined gradients were."""
        if not self.dynamic:
            return
        self._good = self._good + 1 if finite else 0
        # A scale that doubles beyond float32 is infinite in the graph too.
        with np.errstate(over="ignore"):
            if not finite:
                self.value = float(np.float32(self.value) / self._factor)
            # Counted in steps and after the gradients were combined, so that all ranks have one scale.
            elif self._good == self._interval:
                self.value, self._good = float(np.float32(self.value) * self._factor), 0


OF_THE_UPDATE = ("accumulate", "clip", "ema", "loss_scale", "weight_decay")


def stored_values(gradient: Tensor) -> Tensor:
    """Returns a gradient's values: all of a dense one's, the stored rows of a sparse one."""
    return gradient._values() if gradient.is_sparse else gradient


def with_values(gradient: Tensor, values: Tensor) -> Tensor:
    """Returns a gradient of the same kind and rows with other values."""
    if not gradient.is_sparse:
        return values
    return torch.sparse_coo_tensor(gradient._indices(), values, gradient.shape, check_invariants=False)


class Update:
    """Keeps what a case's optimizer table says beside the optimizer itself.

    Args:
      model: the model that trains.
      optimizer: over its parameters.
      description: the table; of it count `learning_rate` where it is a schedule, and
        `clip`: dict with `by` ("global_norm", "norm" or "value"), `limit`, `at` ("combined", or "tower": every rank's own
        gradients, before they are combined) and `sum_duplicates` (add up equal rows of a sparse gradient first);
        `ema`: dict with `decay` and `num_updates`;
        `weight_decay`: dict with `coefficient`, `names`, the parameters that decay (all of them by default), and `where`:
        "every_tower", "first_tower" or "last_tower" for the ranks that add it to their loss, "divided" by their number, or
        "once", its gradient added to the combined one;
        `accumulate`: dict with `steps` and `reduce` ("mean" or "sum") over them;
        `loss_scale`: see `LossScale`.
      set_rate: called with the number of updates made, sets the learning rate of the one that follows; by default the
        description's schedule does, where it has one.

    Attributes:
      averages: dict of parameter name to its moving average; empty where none are kept.
      micro_batches: into how many a rank's shard is cut; None where nothing accumulates.
      averages_micro_batches: whether their gradients are averaged, not summed.
      scale: the `LossScale`.

    Raises:
      TorchDdpError: a parameter that is to decay does not exist, or `by` is none of these.

    Counterpart: tf_towers.clip_gradients, tf_towers.Averages, tf_towers.decay_terms, tf_towers.make_learning_rate
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        description: Mapping[str, Any] | None = None,
        set_rate: Callable[[int], None] | None = None,
    ) -> None:
        table = description or {}
        self._parameters = dict(model.named_parameters())
        self._optimizer = optimizer
        rate = table.get("learning_rate")
        self._schedule = make_schedule(rate) if isinstance(rate, Mapping) and set_rate is None else None
        self._set_rate = set_rate or self._by_schedule
        self._clip = table.get("clip")
        if self._clip and self._clip["by"] not in ("global_norm", "norm", "value"):
            raise TorchDdpError(
                f"clip: expected by to be 'global_norm', 'norm' or 'value', got {self._clip['by']!r}. Write one of them."
            )
        self._coefficient, self._decaying = self._decay(table.get("weight_decay") or {})
        accumulates = table.get("accumulate")
        self.micro_batches: int | None = accumulates["steps"] if accumulates else None
        self.averages_micro_batches = accumulates is not None and accumulates.get("reduce", "mean") == "mean"
        self._where = (table.get("weight_decay") or {}).get("where", "every_tower")
        self.scale = LossScale(table.get("loss_scale"))
        self._ema = table.get("ema")
        self._averages = (
            like_tf.ExponentialMovingAverage(self._parameters.values(), self._ema["decay"]) if self._ema else None
        )

    @property
    def averages(self) -> dict[str, Tensor]:
        """The moving averages by parameter name."""
        kept = self._averages.averages if self._averages else []
        return dict(zip(self._parameters, kept, strict=True)) if kept else {}

    def set_rate(self, global_step: int) -> None:
        """Sets the learning rate of the update that follows `global_step` updates."""
        self._set_rate(global_step)

    def _by_schedule(self, global_step: int) -> None:
        if self._schedule is not None:
            rate = self._schedule(global_step)
            for group in self._optimizer.param_groups:
                group["lr"] = rate

    @property
    def clips_ranks(self) -> bool:
        """Whether every rank clips its own gradients, before they are combined."""
        return self._clip is not None and self._clip.get("at") == "tower"

    def decay(self, rank: int = 0, world_size: int = 1) -> Tensor | float:
        """Returns what weight decay adds to a rank's loss: ``coefficient * sum(w ** 2) / 2`` over what trains, a scalar."""
        # By rank: which of them add nothing to their loss. "every_tower" and "divided" are none of these.
        nowhere = {"once": True, "first_tower": rank > 0, "last_tower": rank < world_size - 1}
        if nowhere.get(self._where):
            return 0.0
        decaying = [self._parameters[name] for name in self._decaying]
        # tf.nn.l2_loss, whose gradient is the weight itself; frozen ones have no gradient to give.
        terms = [parameter.square().sum() / 2 for parameter in decaying if parameter.requires_grad]
        coefficient = self._coefficient / world_size if self._where == "divided" else self._coefficient
        return coefficient * torch.stack(terms).sum() if terms else 0.0

    @torch.no_grad()
    def settle(self, by_hand: bool = False) -> bool:
        """Takes loss scale and number of micro-batches out of the combined gradients, and adds what decays once.

        Args:
          by_hand: the gradients were combined by hand, which left neither in them.

        Returns:
          Whether the step counts: under a dynamic loss scale, whether all of them are finite.
        """
        given = {name: p for name, p in self._parameters.items() if p.grad is not None}
        # Micro-batches were added up in .grad, with their losses scaled.
        divisor = (self.micro_batches or 1) if self.averages_micro_batches else 1
        for parameter in given.values():
            if parameter.grad is not None and not by_hand:
                # One after the other: by their product it would round otherwise.
                for factor in (self.scale.value, divisor):
                    if factor != 1:
                        parameter.grad.div_(factor)
        for name in self._decaying if self._where == "once" else []:
            gradient = self._parameters[name].grad
            if gradient is not None:
                # The gradient of coefficient * |w|^2 / 2, added once and not by each rank; every weight decays, so a
                # sparse one is dense.
                self._parameters[name].grad = gradient.to_dense() + self._coefficient * self._parameters[name]
        gradients = [stored_values(p.grad) for p in given.values() if p.grad is not None]
        return not self.scale.dynamic or all(bool(torch.isfinite(gradient).all()) for gradient in gradients)

    @torch.no_grad()
    def clip_own(self, gradients: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns one rank's own gradients clipped; empty where ranks do not clip their own."""
        return self._clipped(gradients) if self.clips_ranks else {}

    @torch.no_grad()
    def clip(self) -> dict[str, Tensor]:
        """Clips the combined gradients in place; returns them by parameter name, empty where nothing clips them."""
        # Without None, as tf.clip_by_global_norm leaves out variables without a gradient.
        found = {name: p.grad for name, p in self._parameters.items() if p.grad is not None}
        if not self._clip or self.clips_ranks or not found:
            return {}
        clipped = self._clipped(found)
        for name, gradient in clipped.items():
            self._parameters[name].grad = gradient
        return clipped

    def _clipped(self, gradients: Mapping[str, Tensor]) -> dict[str, Tensor]:
        assert self._clip is not None
        by, limit = self._clip["by"], self._clip["limit"]
        # TensorFlow's norm of rows counts a row as often as it was looked up; summed first it is the dense gradient's.
        if self._clip.get("sum_duplicates"):
            gradients = {name: value.coalesce() if value.is_sparse else value for name, value in gradients.items()}
        if by == "global_norm":
            # In the order of the parameters, in which the squares are added up: another order rounds otherwise.
            scaled, _ = like_tf.clip_by_global_norm(list(gradients.values()), limit)
            return {name: value for name, value in zip(gradients, scaled, strict=True) if value is not None}

        def one(values: Tensor) -> Tensor:
            return like_tf.clip_by_norm(values, limit) if by == "norm" else like_tf.clip_by_value(values, -limit, limit)

        return {name: with_values(value, one(stored_values(value))) for name, value in gradients.items()}

    def move_averages(self, global_step: int) -> None:
        """Moves the averages towards the weights, after `global_step` updates."""
        if self._averages is not None and self._ema is not None:
            self._averages.update(global_step if self._ema.get("num_updates") else None)

    def _decay(self, table: Mapping[str, Any]) -> tuple[float, list[str]]:
        if not table:
            return 0.0, []
        names = list(table["names"]) if table.get("names") is not None else list(self._parameters)
        unknown = [name for name in names if name not in self._parameters]
        if unknown:
            raise TorchDdpError(
                f"weight_decay: expected names of parameters, got {', '.join(unknown)}. "
                f"Name some of {', '.join(self._parameters)}."
            )
        return float(table["coefficient"]), names
