"""Momentum and Nesterov momentum, with the learning rate outside the buffer."""

from typing import Any

from torch import Tensor
from torch.optim.optimizer import ParamsT

from torch_ddp.like_tf.graph_scalar import kernel_scalar
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

    def _apply_dense(self, param: Tensor, grad: Tensor, slots: dict[str, Tensor], group: dict[str, Any]) -> None:
        lr = kernel_scalar(group["lr"], param.dtype)
        momentum = kernel_scalar(group["momentum"], param.dtype)
        buffer = slots["momentum"]
        buffer.mul_(momentum).add_(grad)
        if group["use_nesterov"]:
            param.sub_((grad * lr).add_((buffer * momentum).mul_(lr)))
        else:
            param.sub_(buffer * lr)
