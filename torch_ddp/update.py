"""What happens to the gradients and the weights around an optimizer's step: decay, clipping, averages, schedule."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from torch_ddp import like_tf
from torch_ddp.errors import TorchDdpError
from torch_ddp.loss_scale import LossScale
from torch_ddp.schedule import make_schedule

OF_THE_UPDATE = ("accumulate", "clip", "ema", "loss_scale", "weight_decay")


class Update:
    """Keeps what a case's optimizer table says beside the optimizer itself.

    Args:
      model: the model that trains.
      optimizer: over its parameters.
      description: the table; of it count `learning_rate` where it is a schedule; `clip`, dict with `by` ("global_norm",
        "norm" or "value") and `limit`; `ema`, dict with `decay` and `num_updates`; `weight_decay`, dict with
        `coefficient` and `names`, the parameters that decay (all of them by default); `accumulate`, dict with `steps` and
        `reduce` ("mean" or "sum") over them; `loss_scale`, see `LossScale`.

    Attributes:
      averages: dict of parameter name to its moving average; empty where none are kept.
      micro_batches: into how many a rank's shard is cut; None where nothing accumulates.
      scale: the `LossScale`.

    Raises:
      TorchDdpError: a parameter that is to decay does not exist, or `by` is none of these.

    Counterpart: tf_towers.clip_gradients, tf_towers.Averages, tf_towers.decay_terms, tf_towers.make_learning_rate
    """

    def __init__(self, model: nn.Module, optimizer: Optimizer, description: Mapping[str, Any] | None = None) -> None:
        table = description or {}
        self._parameters = dict(model.named_parameters())
        self._optimizer = optimizer
        rate = table.get("learning_rate")
        self._schedule = make_schedule(rate) if isinstance(rate, Mapping) else None
        self._clip = table.get("clip")
        if self._clip and self._clip["by"] not in ("global_norm", "norm", "value"):
            raise TorchDdpError(
                f"clip: expected by to be 'global_norm', 'norm' or 'value', got {self._clip['by']!r}. Write one of them."
            )
        self._coefficient, self._decaying = self._decay(table.get("weight_decay") or {})
        accumulates = table.get("accumulate")
        self.micro_batches: int | None = accumulates["steps"] if accumulates else None
        self._divisor = accumulates["steps"] if accumulates and accumulates.get("reduce", "mean") == "mean" else 1
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
        if self._schedule is not None:
            rate = self._schedule(global_step)
            for group in self._optimizer.param_groups:
                group["lr"] = rate

    def decay(self) -> Tensor | float:
        """Returns what weight decay adds to the loss: ``coefficient * sum(w ** 2) / 2`` over what trains, a scalar."""
        decaying = [self._parameters[name] for name in self._decaying]
        terms = [parameter.square().sum() / 2 for parameter in decaying if parameter.requires_grad]
        return self._coefficient * torch.stack(terms).sum() if terms else 0.0

    @torch.no_grad()
    def settle(self) -> bool:
        """Takes the loss scale and the number of micro-batches out of the combined gradients, in place.

        Returns:
          Whether the step counts: under a dynamic loss scale, whether all of them are finite.
        """
        gradients = [p.grad for p in self._parameters.values() if p.grad is not None]
        for gradient in gradients:
            if self.scale.value != 1.0:
                gradient.div_(self.scale.value)
            if self._divisor != 1:
                gradient.div_(self._divisor)
        return not self.scale.dynamic or all(bool(torch.isfinite(gradient).all()) for gradient in gradients)

    def clip(self) -> dict[str, Tensor]:
        """Clips the combined gradients in place; returns them by parameter name, empty where nothing clips."""
        found = {name: p for name, p in self._parameters.items() if p.grad is not None}
        if not self._clip or not found:
            return {}
        limit = self._clip["limit"]
        gradients = [p.grad for p in found.values()]
        clipped: list[Tensor | None]
        if self._clip["by"] == "global_norm":
            clipped, _ = like_tf.clip_by_global_norm(gradients, limit)
        elif self._clip["by"] == "norm":
            clipped = [like_tf.clip_by_norm(gradient, limit) for gradient in gradients if gradient is not None]
        else:
            clipped = [like_tf.clip_by_value(gradient, -limit, limit) for gradient in gradients if gradient is not None]
        for parameter, gradient in zip(found.values(), clipped, strict=True):
            parameter.grad = gradient
        return {name: p.grad for name, p in found.items() if p.grad is not None}

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
