"""Apex's FusedAdam."""

from typing import Any

import torch
from torch import Tensor

from torch_ddp.amp.options import HALF_DTYPES
from torch_ddp.apex.optimizers.fused import FusedOptimizer, FusedOptimizerError, next_step, refuse_amsgrad
from torch_ddp.apex.optimizers.moment_rules import (
    multi_tensor_adam,
    multi_tensor_adam_capturable,
    multi_tensor_adam_capturable_master,
)

__all__ = ["FusedAdam"]


class FusedAdam(FusedOptimizer):
    """Adam, by default with decoupled weight decay (AdamW), and moments in float32 of half weights too.

    Args:
        params: weights, or groups of them.
        lr: learning rate.
        bias_correction: whether the moments are corrected for their beginning at zero.
        betas: of the means of gradients and of squares.
        eps: added to the root.
        adam_w_mode: whether decay is added to the update, or to the gradient.
        weight_decay: of the weights.
        amsgrad: refused, as in Apex.
        set_grad_none: whether `zero_grad` takes gradients away.
        capturable: whether rate and step are tensors, for CUDA graphs and for loss scales on the device.
        master_weights: whether half weights have float32 masters here; only with `capturable`.

    Raises:
        FusedOptimizerError: what Apex refuses.

    Counterpart: apex.optimizers.FusedAdam
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        adam_w_mode: bool = True,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        set_grad_none: bool = True,
        capturable: bool = False,
        master_weights: bool = False,
    ) -> None:
        refuse_amsgrad("FusedAdam", amsgrad)
        if master_weights and not capturable:
            raise FusedOptimizerError(
                "FusedAdam: expected capturable=True with master_weights=True, got False. Pass both, or use "
                "amp.initialize(opt_level='O2')."
            )
        rate = torch.as_tensor(lr, dtype=torch.float32) if capturable else lr
        defaults = {"lr": rate, "bias_correction": bias_correction, "betas": betas, "eps": eps}
        super().__init__(params, {**defaults, "weight_decay": weight_decay}, set_grad_none)
        self.adam_w_mode = 1 if adam_w_mode else 0
        self.capturable = capturable
        self.master_weights = master_weights
        self._masters: dict[Tensor, Tensor] = {}
        if capturable:
            # torch.amp.GradScaler then hands itself to `step`, and leaves unscaling to it.
            self._step_supports_amp_scaling = True
            for group in self.param_groups:
                group["lr"] = torch.as_tensor(group["lr"], dtype=torch.float32).to(group["params"][0].device)

    @torch.no_grad()
    def step(
        self,
        closure: Any = None,
        grads: Any = None,
        output_params: Any = None,
        scale: Any = None,
        grad_norms: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Steps once.

        Args:
            closure: computes the loss and its gradients anew, and returns the loss.
            grads: refused, as the next three are: arguments of an older FusedAdam.
            output_params: refused.
            scale: refused.
            grad_norms: refused.
            **kwargs: grad_scaler, a `torch.amp.GradScaler` whose scale the gradients still have; with `capturable`. One that
                calls `step` itself leaves its scale on the optimizer instead.

        Raises:
            FusedOptimizerError: an argument of the older FusedAdam was passed.
        """
        grad_scaler = kwargs.pop("grad_scaler", None)
        if kwargs or any(given is not None for given in (grads, output_params, scale, grad_norms)):
            raise FusedOptimizerError(
                "FusedAdam.step: expected no grads, output_params, scale or grad_norms, got one. Leave them out, as in "
                "Apex since 2019, and let amp.scale_loss unscale the gradients."
            )
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            if self.capturable:
                self._step_on_device(group, grad_scaler)
                continue
            step = next_step(group)
            for params in self._by_width(group["params"]):
                multi_tensor_adam(
                    0,
                    None,
                    self._lists(params),
                    float(group["lr"]),
                    group["betas"][0],
                    group["betas"][1],
                    group["eps"],
                    step,
                    self.adam_w_mode,
                    group["bias_correction"],
                    group["weight_decay"],
                )
        return loss

    def _lists(self, params: list[Tensor]) -> list[list[Tensor]]:
        means, squares = (self._slots(params, name, float32=True) for name in ("exp_avg", "exp_avg_sq"))
        return [[param.grad for param in params if param.grad is not None], params, means, squares]

    def _step_on_device(self, group: dict[str, Any], grad_scaler: Any) -> None:
        device = group["params"][0].device
        overflow, scale = self._overflow_and_scale(grad_scaler, device)
        inverse = scale.double().reciprocal().float().reshape(1)
        flag = (overflow.reshape(1) != 0).to(torch.int)
        if "step" in group:
            group["step"] += (flag != 1).to(torch.int)
        else:
            # 1 also where the first step is skipped, as in Apex.
            group["step"] = torch.ones(1, dtype=torch.int, device=device)
        for params in self._by_width(group["params"]):
            lists, kernel = self._lists(params), multi_tensor_adam_capturable
            # bfloat16 weights have no masters there either.
            if self.master_weights and params[0].dtype is not torch.bfloat16:
                lists, kernel = [*lists, [self._master(param) for param in params]], multi_tensor_adam_capturable_master
            kernel(
                0,
                flag,
                lists,
                group["lr"],
                group["betas"][0],
                group["betas"][1],
                group["eps"],
                group["step"],
                self.adam_w_mode,
                group["bias_correction"],
                group["weight_decay"],
                inverse,
            )

    def _overflow_and_scale(self, grad_scaler: Any, device: torch.device) -> tuple[Tensor, Tensor]:
        # One element each.
        one = torch.ones(1, device=device)
        if grad_scaler is not None:
            return grad_scaler._check_inf_per_device(self)[device], grad_scaler._get_scale_async()
        # Set by GradScaler for the time of a step.
        overflow, scale = getattr(self, "found_inf", None), getattr(self, "grad_scale", None)
        return 0 * one if overflow is None else overflow.to(device), one if scale is None else scale.to(device)

    def _master(self, param: Tensor) -> Tensor:
        if param not in self._masters:
            own = param.detach().clone()
            self._masters[param] = own.float() if param.dtype in HALF_DTYPES else own
        return self._masters[param]
