"""Apex's FusedNovoGrad."""

from typing import Any

import torch
from torch import Tensor

from torch_ddp.apex.optimizers.fused import FusedOptimizer, FusedOptimizerError, next_step, refuse_amsgrad
from torch_ddp.apex.optimizers.update_rules import multi_tensor_novograd
from torch_ddp.apex.tensor_lists import is_double, norms, widened

__all__ = ["FusedNovoGrad"]


class FusedNovoGrad(FusedOptimizer):
    """NovoGrad: the gradient of each weight over its norm, averaged over steps.

    Args:
        params: weights, or groups of them; which of them have gradients must stay the same from step to step.
        lr: learning rate.
        bias_correction: whether means and norms are corrected for their beginning.
        betas: of the means of gradients and of norms.
        eps: added to the norm.
        weight_decay: of the weights.
        amsgrad: refused, as in Apex.
        reg_inside_moment: whether normalisation and decay come before the mean, or behind it.
        grad_averaging: whether the gradient counts ``1 - beta1`` in the mean, or 1.
        norm_type: 2 for the Euclidean norm, 0 for the largest absolute value.
        init_zero: whether norms begin at 0, or at those of the first step.
        set_grad_none: whether `zero_grad` takes gradients away.

    Raises:
        FusedOptimizerError: what Apex refuses.

    Source: Ginsburg et al., "Stochastic Gradient Methods with Layer-wise Adaptive Moments", 2019;
        apex/optimizers/fused_novograd.py, 25.04.

    Counterpart: apex.optimizers.FusedNovoGrad
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        reg_inside_moment: bool = False,
        grad_averaging: bool = True,
        norm_type: int = 2,
        init_zero: bool = False,
        set_grad_none: bool = True,
    ) -> None:
        refuse_amsgrad("FusedNovoGrad", amsgrad)
        if norm_type not in (0, 2):
            raise FusedOptimizerError(f"FusedNovoGrad: expected norm_type 0 or 2, got {norm_type}. Choose one.")
        defaults = {
            "lr": lr,
            "bias_correction": bias_correction,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "grad_averaging": grad_averaging,
            "norm_type": norm_type,
            "init_zero": init_zero,
        }
        super().__init__(params, defaults, set_grad_none)
        self.moment_mode = 0 if reg_inside_moment else 1

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what `state_dict` returned, norms on the devices of the weights.

        Args:
            state_dict: from this class, or from Apex's.
        """
        super().load_state_dict(state_dict)
        for group in self.param_groups:
            if "exp_avg_sq" in group:
                device = group["params"][0].device
                group["exp_avg_sq"] = [norm.to(device) for norm in group["exp_avg_sq"]]

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Steps once.

        Args:
            closure: computes the loss and its gradients anew, and returns the loss.

        Raises:
            FusedOptimizerError: another number of weights has gradients than at the first step.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            step = next_step(group)
            # Apex's two lists: of half weights, and of the others.
            lists = self._by_width(group["params"])
            halves = [params for params in lists if params[0].dtype.itemsize == 2]
            wides = [params for params in lists if params[0].dtype.itemsize != 2]
            if len(halves) > 1 or len(wides) > 1:
                raise FusedOptimizerError(
                    "FusedNovoGrad: expected the weights of a group on one device, float32 and float64 not mixed, got "
                    "several. Make a group of each."
                )
            several = [halves[0] if halves else [], wides[0] if wides else []]
            if "exp_avg_sq" not in group:
                group["exp_avg_sq"] = [self._first_norms(params, group) for params in several]
            for params, averaged in zip(several, group["exp_avg_sq"], strict=True):
                self._update(params, averaged, group, step)
        return loss

    def _first_norms(self, params: list[Tensor], group: dict[str, Any]) -> Tensor:
        # Shape [weights], at least float32.
        device = group["params"][0].device
        dtype = torch.float64 if params and is_double(params) else torch.float32
        if not params or group["init_zero"]:
            return torch.zeros(len(params), dtype=dtype, device=device)
        grads = [param.grad for param in params if param.grad is not None]
        if group["norm_type"] == 2:
            return norms(grads)
        return torch.stack([grad.abs().max() for grad in widened(grads)])

    def _update(self, params: list[Tensor], averaged: Tensor, group: dict[str, Any], step: int) -> None:
        if len(params) != averaged.numel():
            raise FusedOptimizerError(
                f"FusedNovoGrad.step: expected gradients of {averaged.numel()} weights, as at the first step, got "
                f"{len(params)}. Its norms are kept by their order: give every weight a gradient at every step."
            )
        if not params:
            return
        multi_tensor_novograd(
            0,
            None,
            [[param.grad for param in params if param.grad is not None], params, self._slots(params, "exp_avg")],
            averaged,
            float(group["lr"]),
            group["betas"][0],
            group["betas"][1],
            group["eps"],
            step,
            group["bias_correction"],
            group["weight_decay"],
            group["grad_averaging"],
            self.moment_mode,
            group["norm_type"],
        )
