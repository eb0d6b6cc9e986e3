"""Momentum and Nesterov momentum, with the learning rate outside the buffer."""

from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from torch_ddp.like_tf.graph_scalar import kernel_float
from torch_ddp.like_tf.optim.base import SlotOptimizer


class Momentum(SlotOptimizer):
    """Updates ``a = a * momentum + g; w -= a * lr``.

    With ``use_nesterov`` the second part is ``w -= g * lr + a * momentum * lr``. A sparse gradient moves the touched
    rows alone; the slot of the others is frozen. Source: tensorflow/python/training/momentum.py, 1.15, and
    kernels/training_ops.cc.

    Args:
        params: parameters or groups of them, as for torch.optim.
        lr: learning rate.
        momentum: weight of the old buffer.
        use_nesterov: whether the update looks one step ahead.

    Counterpart: tf.compat.v1.train.MomentumOptimizer.
    """

    def __init__(self, params: ParamsT, lr: float, momentum: float = 0.9, use_nesterov: bool = False) -> None:
        super().__init__(params, lr, momentum=momentum, use_nesterov=use_nesterov)

    @property
    def slot_names(self) -> tuple[str, ...]:
        """The names of the slots."""
        return ("momentum",)

    def _apply(
        self, params: list[Tensor], grads: list[Tensor], slots: dict[str, list[Tensor]], group: dict[str, Any]
    ) -> None:
        # The rule of torch.optim.SGD with dampening 0; rate and momentum in float32 leave 1.6e-7 of the largest
        # change of the weights after 50 steps (docs/semantics.md). torch makes its buffer in the first step, of g:
        # the same as mu * 0 + g.
        dtype, buffers = params[0].dtype, slots["momentum"]
        lr, momentum = (kernel_float(group[name], dtype) for name in ("lr", "momentum"))
        # Without the rate, which so scales the whole buffer when it changes; in RMSProp it stands inside.
        torch._foreach_mul_(buffers, momentum)
        torch._foreach_add_(buffers, grads)
        if group["use_nesterov"]:
            # Two products with the rate and their sum, in the order of the kernel; torch sums first and multiplies
            # once.
            steps = torch._foreach_mul(grads, lr)
            ahead = torch._foreach_mul(buffers, momentum)
            torch._foreach_mul_(ahead, lr)
            torch._foreach_add_(steps, ahead)
        else:
            steps = torch._foreach_mul(buffers, lr)
        torch._foreach_sub_(params, steps)
