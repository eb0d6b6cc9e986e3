"""Apex's FusedLAMB."""

from typing import Any

import torch
from torch import Tensor

from torch_ddp.apex.optimizers.fused import FusedOptimizer, next_step, refuse_amsgrad
from torch_ddp.apex.optimizers.moment_rules import multi_tensor_lamb
from torch_ddp.apex.tensor_lists import norms

__all__ = ["FusedLAMB"]


class FusedLAMB(FusedOptimizer):
    """LAMB: Adam whose rate is scaled, weight by weight, by the norm of the weight over that of its update.

    Args:
        params: weights, or groups of them.
        lr: learning rate.
        bias_correction: whether the moments are corrected for their beginning at zero.
        betas: of the means of gradients and of squares.
        eps: added to the root.
        weight_decay: of the weights; without, the rate is not scaled unless `use_nvlamb`.
        amsgrad: refused, as in Apex.
        adam_w_mode: whether decay is added to the update, or to the gradient.
        grad_averaging: whether the gradient counts ``1 - beta1`` in the mean, or 1.
        set_grad_none: whether `zero_grad` takes gradients away.
        max_grad_norm: the norm over all gradients beyond which they are divided; the same for all groups, as in Apex.
        use_nvlamb: whether weights without decay have their rate scaled too.

    Raises:
        FusedOptimizerError: `amsgrad` was asked for.

    Source: You et al., "Large Batch Optimization for Deep Learning", 2019; apex/optimizers/fused_lamb.py, 25.04.

    Counterpart: apex.optimizers.FusedLAMB
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        amsgrad: bool = False,
        adam_w_mode: bool = True,
        grad_averaging: bool = True,
        set_grad_none: bool = True,
        max_grad_norm: float = 1.0,
        use_nvlamb: bool = False,
    ) -> None:
        refuse_amsgrad("FusedLAMB", amsgrad)
        defaults = {
            "lr": lr,
            "bias_correction": bias_correction,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "grad_averaging": grad_averaging,
            "max_grad_norm": max_grad_norm,
        }
        super().__init__(params, defaults, set_grad_none)
        self.adam_w_mode = 1 if adam_w_mode else 0
        self.use_nvlamb = use_nvlamb

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
        lists = [(group, self._by_width(group["params"])) for group in self.param_groups]
        total = _norm_over_all([params for _, several in lists for params in several])
        for group, several in lists:
            step = next_step(group)
            for params in several:
                means, squares = self._slots(params, "exp_avg"), self._slots(params, "exp_avg_sq")
                multi_tensor_lamb(
                    0,
                    None,
                    [[param.grad for param in params if param.grad is not None], params, means, squares],
                    float(group["lr"]),
                    group["betas"][0],
                    group["betas"][1],
                    group["eps"],
                    step,
                    group["bias_correction"],
                    group["weight_decay"],
                    group["grad_averaging"],
                    self.adam_w_mode,
                    total.to(params[0].device),
                    self.defaults["max_grad_norm"],
                    self.use_nvlamb,
                )
        return loss


def _norm_over_all(lists: list[list[Tensor]]) -> Tensor:
    # Shape []; the norms of the lists' norms, on the device of the first.
    each = [
        torch.linalg.vector_norm(norms([param.grad for param in params if param.grad is not None])) for params in lists
    ]
    return (
        torch.linalg.vector_norm(torch.stack([norm.to(each[0].device) for norm in each])) if each else torch.zeros(())
    )
