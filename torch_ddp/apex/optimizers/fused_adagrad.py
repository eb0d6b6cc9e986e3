"""Apex's FusedAdagrad."""

from typing import Any

import torch

from torch_ddp.apex.optimizers.fused import FusedOptimizer
from torch_ddp.apex.optimizers.update_rules import multi_tensor_adagrad

__all__ = ["FusedAdagrad"]


class FusedAdagrad(FusedOptimizer):
    """Adagrad.

    Args:
        params: weights, or groups of them.
        lr: learning rate.
        eps: added to the root.
        weight_decay: of the weights.
        set_grad_none: whether `zero_grad` takes gradients away.
        adagrad_w_mode: whether decay is added to the update, or to the gradient.

    Counterpart: apex.optimizers.FusedAdagrad
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        eps: float = 1e-10,
        weight_decay: float = 0.0,
        set_grad_none: bool = True,
        adagrad_w_mode: bool = False,
    ) -> None:
        super().__init__(params, {"lr": lr, "eps": eps, "weight_decay": weight_decay}, set_grad_none)
        self.adagrad_w_mode = 1 if adagrad_w_mode else 0

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
                grads = [param.grad for param in params if param.grad is not None]
                multi_tensor_adagrad(
                    0,
                    None,
                    [grads, params, self._slots(params, "sum")],
                    float(group["lr"]),
                    group["eps"],
                    self.adagrad_w_mode,
                    group["weight_decay"],
                )
        return loss
