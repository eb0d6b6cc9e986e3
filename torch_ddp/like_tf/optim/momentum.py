"""Momentum and Nesterov momentum, with the learning rate outside the buffer."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from torch_ddp.like_tf.arguments import also_named
from torch_ddp.like_tf.graph_scalar import kernel_float
from torch_ddp.like_tf.optim.base import SlotOptimizer


class Momentum(SlotOptimizer):
    """Updates ``a = a * momentum + g; w -= a * lr``.

    With ``nesterov`` the second part is ``w -= g * lr + a * momentum * lr``. A sparse gradient moves the touched
    rows alone; the slot of the others is frozen. Source: tensorflow/python/training/momentum.py, 1.15, and
    kernels/training_ops.cc.

    Args:
        params: parameters or groups of them, as for torch.optim.
        lr: learning rate.
        momentum: weight of the old buffer.
        nesterov: whether the update looks one step ahead.

    Counterpart: tf.compat.v1.train.MomentumOptimizer.
    """

    further_names: ClassVar[Mapping[str, str]] = {**SlotOptimizer.further_names, "nesterov": "use_nesterov"}

    @also_named(learning_rate="lr", use_nesterov="nesterov")
    def __init__(self, params: ParamsT, lr: float, momentum: float = 0.9, nesterov: bool = False) -> None:
        super().__init__(params, lr, momentum=momentum, use_nesterov=nesterov)

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
