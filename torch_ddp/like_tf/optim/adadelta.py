"""Adadelta with TensorFlow's defaults and rounding."""

from typing import Any

from torch import Tensor
from torch.optim.optimizer import ParamsT

from torch_ddp.like_tf.graph_scalar import kernel_scalar
from torch_ddp.like_tf.optim.base import SlotOptimizer


class Adadelta(SlotOptimizer):
    """Updates ``w -= lr * u`` with ``u = g * sqrt(accum_update + epsilon) / sqrt(accum + epsilon)``.

    ``accum`` is the moving average of ``g * g``, ``accum_update`` that of ``u * u``. A sparse gradient moves the
    touched rows alone. Source: tensorflow/python/training/adadelta.py, 1.15, and kernels/training_ops.cc.

    Args:
        params: parameters or groups of them, as for torch.optim.
        lr: learning rate.
        rho: weight of the old averages.
        epsilon: added under both roots.

    Counterpart: tf.compat.v1.train.AdadeltaOptimizer.
    """

    def __init__(self, params: ParamsT, lr: float = 0.001, rho: float = 0.95, epsilon: float = 1e-8) -> None:
        super().__init__(params, lr, rho=rho, epsilon=epsilon)

    @property
    def slot_names(self) -> tuple[str, ...]:
        """The names of the slots."""
        return ("accum", "accum_update")

    def _apply_dense(self, param: Tensor, grad: Tensor, slots: dict[str, Tensor], group: dict[str, Any]) -> None:
        # The same rule as torch's, with other defaults: torch has rho 0.9 and epsilon 1e-6. With each side's own the
        # weights are 4.7 times their largest change apart after 50 steps (docs/semantics.md).
        rho = kernel_scalar(group["rho"], param.dtype)
        epsilon = kernel_scalar(group["epsilon"], param.dtype)
        accum, accum_update = slots["accum"], slots["accum_update"]
        accum.mul_(rho).add_(grad.square().mul_(1.0 - rho))
        # A root times a reciprocal root, in the order of the kernel; torch divides two roots, which rounds otherwise.
        update = (accum_update + epsilon).sqrt_().mul_((accum + epsilon).rsqrt_()).mul_(grad)
        param.sub_(update * kernel_scalar(group["lr"], param.dtype))
        # After the step of the weights, which takes the average without this update. `update` is squared in place,
        # being used up.
        accum_update.mul_(rho).add_(update.square_().mul_(1.0 - rho))
