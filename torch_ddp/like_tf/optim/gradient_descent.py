"""Plain gradient descent."""

from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from torch_ddp.like_tf.arguments import also_named
from torch_ddp.like_tf.graph_scalar import kernel_float
from torch_ddp.like_tf.optim.base import SlotOptimizer


class GradientDescent(SlotOptimizer):
    """Updates ``w -= g * lr``, with the learning rate rounded to float32.

    TensorFlow 1.15 alone does not round it for a sparse gradient of a resource variable; this does always. Source:
    tensorflow/python/training/gradient_descent.py, 1.15, and kernels/training_ops.cc.

    Args:
        params: parameters or groups of them, as for torch.optim.
        lr: learning rate.

    Counterpart: tf.compat.v1.train.GradientDescentOptimizer.
    """

    @also_named(learning_rate="lr")
    def __init__(self, params: ParamsT, lr: float) -> None:
        super().__init__(params, lr)

    def _apply(
        self, params: list[Tensor], grads: list[Tensor], slots: dict[str, list[Tensor]], group: dict[str, Any]
    ) -> None:
        # The rule of torch.optim.SGD: only the rate differs, 0.1 by 1.5e-8 of itself, and so do the weights after 50
        # steps.
        torch._foreach_sub_(params, torch._foreach_mul(grads, kernel_float(group["lr"], params[0].dtype)))
