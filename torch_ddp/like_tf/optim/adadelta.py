"""Adadelta with TensorFlow's defaults and rounding."""

from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from torch_ddp.like_tf.arguments import also_named
from torch_ddp.like_tf.graph_scalar import kernel_float, kernel_scalar
from torch_ddp.like_tf.optim.base import SlotOptimizer
from torch_ddp.like_tf.optim.pieces import Many


class Adadelta(SlotOptimizer):
    """Updates ``w -= lr * u`` with ``u = g * sqrt(accum_update + epsilon) / sqrt(accum + epsilon)``.

    ``accum`` is the moving average of ``g * g``, ``accum_update`` that of ``u * u``. A sparse gradient moves the
    touched rows alone. Source: tensorflow/python/training/adadelta.py, 1.15, and kernels/training_ops.cc.

    Args:
        params: parameters or groups of them, as for torch.optim.
        lr: learning rate.
        rho: weight of the old averages.
        eps: added under both roots.

    Counterpart: tf.compat.v1.train.AdadeltaOptimizer.
    """

    @also_named(learning_rate="lr", epsilon="eps")
    def __init__(self, params: ParamsT, lr: float = 0.001, rho: float = 0.95, eps: float = 1e-8) -> None:
        super().__init__(params, lr, rho=rho, epsilon=eps)

    @property
    def slot_names(self) -> tuple[str, ...]:
        """The names of the slots."""
        return ("accum", "accum_update")

    def _apply(
        self, params: list[Tensor], grads: list[Tensor], slots: dict[str, list[Tensor]], group: dict[str, Any]
    ) -> None:
        # The same rule as torch's, with other defaults: torch has rho 0.9 and epsilon 1e-6. With each side's own the
        # weights are 4.7 times their largest change apart after 50 steps (docs/semantics.md).
        dtype = params[0].dtype
        lr, rho, epsilon = (kernel_float(group[name], dtype) for name in ("lr", "rho", "epsilon"))
        new = (1.0 - kernel_scalar(group["rho"], dtype)).item()
        accums, updates_accums = slots["accum"], slots["accum_update"]
        _average(accums, torch._foreach_mul(grads, grads), rho, new)
        # A root times a reciprocal root, in the order of the kernel; torch divides two roots, which rounds otherwise.
        updates = torch._foreach_add(updates_accums, epsilon)
        torch._foreach_sqrt_(updates)
        roots = torch._foreach_add(accums, epsilon)
        torch._foreach_rsqrt_(roots)
        torch._foreach_mul_(updates, roots)
        torch._foreach_mul_(updates, grads)
        torch._foreach_sub_(params, torch._foreach_mul(updates, lr))
        # After the step of the weights, which takes the average without this update.
        _average(updates_accums, torch._foreach_mul(updates, updates), rho, new)


def _average(averages: list[Tensor], values: Many, old: float, new: float) -> None:
    # average = average * old + value * new; `values` are used up.
    torch._foreach_mul_(averages, old)
    torch._foreach_mul_(values, new)
    torch._foreach_add_(averages, values)
