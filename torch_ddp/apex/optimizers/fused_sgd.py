"""Apex's FusedSGD."""

from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import required

from torch_ddp.apex.optimizers.fused import FusedOptimizer, FusedOptimizerError
from torch_ddp.apex.optimizers.update_rules import multi_tensor_sgd

__all__ = ["FusedSGD"]


class FusedSGD(FusedOptimizer):
    """SGD with momentum, Nesterov's too.

    Args:
        params: weights, or groups of them.
        lr: learning rate, at least 0; left out, each group has to have its own.
        momentum: at least 0.
        dampening: of the gradient in the momentum; the first step has none.
        weight_decay: of the weights, at least 0.
        nesterov: whether the gradient is looked ahead.
        wd_after_momentum: whether the decay is added behind the momentum.
        materialize_master_grads: no effect: masters always have gradients, and the values are the same.
        set_grad_none: whether `zero_grad` takes gradients away.

    Raises:
        FusedOptimizerError: what Apex refuses.
        ValueError: neither `lr` nor a group says how fast it learns.

    Counterpart: apex.optimizers.FusedSGD
    """

    def __init__(
        self,
        params: Any,
        lr: float | None = None,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        wd_after_momentum: bool = False,
        materialize_master_grads: bool = True,
        set_grad_none: bool = False,
    ) -> None:
        for name, value in (("lr", lr), ("momentum", momentum), ("weight_decay", weight_decay)):
            if value is not None and value < 0.0:
                raise FusedOptimizerError(f"FusedSGD: expected {name} of at least 0, got {value}. Pass a larger one.")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise FusedOptimizerError(
                f"FusedSGD: expected a momentum and no dampening with nesterov=True, got {momentum} and {dampening}. "
                "Pass momentum=0.9, dampening=0."
            )
        defaults = {
            "lr": required if lr is None else lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
        }
        super().__init__(params, {**defaults, "nesterov": nesterov}, set_grad_none)
        self.wd_after_momentum = wd_after_momentum
        self.materialize_master_grads = materialize_master_grads
        self.most_recent_scale = 1.0
        self.scale_set_by_backward = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("nesterov", False)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Steps once.

        Args:
            closure: computes the loss and its gradients anew, and returns the loss.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for params in self._by_width(group["params"]):
                # Apart, as Apex lets the last weight of a list decide for all: one that gets its first gradient late
                # makes the momenta of all others there their gradients.
                fresh = [param for param in params if "momentum_buffer" not in self.state[param]]
                known = [param for param in params if "momentum_buffer" in self.state[param]]
                for part, first in ((fresh, True), (known, False)):
                    self._update(part, group, first)
        return loss

    def _update(self, params: list[Tensor], group: dict[str, Any], first: bool) -> None:
        if not params:
            return
        grads = [param.grad for param in params if param.grad is not None]
        # Without momentum nothing would be in them.
        momenta = self._slots(params, "momentum_buffer") if group["momentum"] else grads
        multi_tensor_sgd(
            0,
            None,
            [grads, params, momenta],
            group["weight_decay"],
            group["momentum"],
            group["dampening"],
            float(group["lr"]),
            group["nesterov"],
            first,
            self.wd_after_momentum,
            1.0,
        )
