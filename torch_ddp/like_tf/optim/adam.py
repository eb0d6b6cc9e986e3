"""Adam with the epsilon that TensorFlow calls epsilon hat, and float32 powers of beta."""

import functools
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from torch_ddp.like_tf.arguments import also_named
from torch_ddp.like_tf.graph_scalar import kernel_float, kernel_scalar
from torch_ddp.like_tf.optim.base import SlotOptimizer
from torch_ddp.like_tf.optim.pieces import Many, divides_like_the_kernel


class Adam(SlotOptimizer):
    """Updates ``w -= m * alpha / (sqrt(v) + epsilon)`` with ``alpha = lr * sqrt(1 - beta2^t) / (1 - beta1^t)``.

    ``beta1^t`` and ``beta2^t`` are float32 numbers that are multiplied once per step, after the update, for every dtype
    of parameter; they are state and live in ``param_group["beta1_power"]`` and ``["beta2_power"]``. ``alpha`` is
    computed in the parameter's dtype. A sparse gradient decays the slots and moves the weights of **all** rows.
    Source: tensorflow/python/training/adam.py, 1.15, and kernels/training_ops.cc.

    Args:
        params: parameters or groups of them, as for torch.optim.
        lr: learning rate.
        beta1: weight of the old first moment.
        beta2: weight of the old second moment.
        eps: added to the root of the second moment before its bias is corrected.
        betas: beta1 and beta2 at once, as torch.optim has them.
        more: hyper-parameters of a subclass.

    Counterpart: tf.compat.v1.train.AdamOptimizer.
    """

    @also_named(learning_rate="lr", epsilon="eps")
    def __init__(
        self,
        params: ParamsT,
        lr: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        *,
        betas: tuple[float, float] | None = None,
        **more: float,
    ) -> None:
        beta1, beta2 = betas or (beta1, beta2)
        super().__init__(params, lr, beta1=beta1, beta2=beta2, epsilon=eps, **more)

    @property
    def slot_names(self) -> tuple[str, ...]:
        """The names of the slots."""
        return ("m", "v")

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group of parameters, its slots, and its powers of beta, which start at beta itself.

        Args:
            param_group: ``{"params": parameters}`` and hyper-parameters that differ from the constructor's.
        """
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        # At beta and not at 1: a step takes them before `_finish` multiplies, so that update t, from 1, has beta^t.
        group.setdefault("beta1_power", group["beta1"])
        group.setdefault("beta2_power", group["beta2"])

    def _apply(
        self, params: list[Tensor], grads: list[Tensor], slots: dict[str, list[Tensor]], group: dict[str, Any]
    ) -> None:
        dtype, one = params[0].dtype, kernel_scalar(1.0, params[0].dtype)
        m, v = slots["m"], slots["v"]
        # m += (g - m) * (1 - beta1), as the kernel has it; beta1 * m + (1 - beta1) * g is up to 1.8 * 2^-24 of |m| +
        # |g| away (a million normal m and g, beta1 0.9). 1 - beta is a difference of float32 numbers, for 0.999
        # 1.3e-5 of itself below 0.001; torch takes it in double.
        _move(m, torch._foreach_sub(grads, m), (one - kernel_scalar(group["beta1"], dtype)).item())
        squares = torch._foreach_mul(grads, grads)
        torch._foreach_sub_(squares, v)
        _move(v, squares, (one - kernel_scalar(group["beta2"], dtype)).item())
        self._descend(params, self._direction(grads, m, group), v, group)

    def _direction(self, grads: list[Tensor], m: list[Tensor], group: dict[str, Any]) -> list[Tensor]:
        """Returns what is divided by the root of the second moment, before the rate; it stays as it is."""
        return m

    def _descend(self, params: list[Tensor], directions: list[Tensor], v: list[Tensor], group: dict[str, Any]) -> None:
        dtype = params[0].dtype
        alpha = correction(group, dtype).item()
        roots = torch._foreach_sqrt(v)
        torch._foreach_add_(roots, kernel_float(group["epsilon"], dtype))
        if divides_like_the_kernel(params[0]):
            torch._foreach_addcdiv_(params, directions, roots, -alpha)
        else:
            steps = torch._foreach_mul(directions, alpha)
            torch._foreach_div_(steps, roots)
            torch._foreach_sub_(params, steps)

    def _apply_sparse(
        self, param: Tensor, rows: Tensor, values: Tensor, slots: dict[str, Tensor], group: dict[str, Any]
    ) -> None:
        one = kernel_scalar(1.0, param.dtype)
        beta1 = kernel_scalar(group["beta1"], param.dtype)
        beta2 = kernel_scalar(group["beta2"], param.dtype)
        m, v = slots["m"], slots["v"]
        # Another formula of the same rule: TensorFlow scales the whole slot and adds to the touched rows
        # (_apply_sparse_shared of adam.py). So rows without a gradient decay, and their weights move; SparseAdam of
        # torch leaves both alone.
        m.mul_(beta1).index_add_(0, rows, values * (one - beta1))
        v.mul_(beta2).index_add_(0, rows, values.square() * (one - beta2))
        param.sub_(
            (m * correction(group, param.dtype)).div_(v.sqrt().add_(kernel_scalar(group["epsilon"], param.dtype)))
        )

    def _finish(self, group: dict[str, Any]) -> None:
        # Rounded to float32 after each product, as the variables are: that leaves 1 - 0.999^2 2e-5 of itself too
        # small.
        for beta in ("beta1", "beta2"):
            group[f"{beta}_power"] = float(np.float32(group[f"{beta}_power"]) * np.float32(group[beta]))


def _move(averages: list[Tensor], changes: Many, rate: float) -> None:
    # average += change * rate; `changes` are used up.
    torch._foreach_mul_(changes, rate)
    torch._foreach_add_(averages, changes)


def correction(group: dict[str, Any], dtype: torch.dtype) -> Tensor:
    """Returns ``lr * sqrt(1 - beta2^t) / (1 - beta1^t)``, shape [], computed in the parameter's dtype."""
    # torch corrects v itself and then adds epsilon: lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon).
    # Multiplied out, TensorFlow's epsilon is one of torch that is 1 / sqrt(1 - beta2^t) times as large: 31.6 times at
    # t = 1, 10 at 10, 1.26 at 1000 (beta2 0.999). After 50 steps that is 1.3e-4 of the largest change
    # (docs/semantics.md).
    return _corrected(*(float(group[name]) for name in ("lr", "beta1_power", "beta2_power")), dtype)


@functools.lru_cache(maxsize=8)
def _corrected(lr: float, beta1_power: float, beta2_power: float, dtype: torch.dtype) -> Tensor:
    # The same for all parameters of a step: made once, and never changed in place.
    one = kernel_scalar(1.0, dtype)
    return (
        kernel_scalar(lr, dtype)
        * (one - kernel_scalar(beta2_power, dtype)).sqrt()
        / (one - kernel_scalar(beta1_power, dtype))
    )
