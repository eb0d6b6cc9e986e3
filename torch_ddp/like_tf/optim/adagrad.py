"""Adagrad that starts at 0.1 and has no epsilon."""

from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from torch_ddp.like_tf.arguments import also_named
from torch_ddp.like_tf.errors import LikeTfError
from torch_ddp.like_tf.graph_scalar import kernel_float
from torch_ddp.like_tf.optim.base import SlotOptimizer


class Adagrad(SlotOptimizer):
    """Updates ``accumulator += g * g; w -= g * lr / sqrt(accumulator)``.

    Source: tensorflow/python/training/adagrad.py, 1.15, and kernels/training_ops.cc.

    Args:
        params: parameters or groups of them, as for torch.optim.
        lr: learning rate.
        initial_accumulator_value: positive; TensorFlow casts it to the variable's dtype without rounding to float32.

    Raises:
        LikeTfError: the initial accumulator value is not positive.

    Counterpart: tf.compat.v1.train.AdagradOptimizer.
    """

    # The slot is made by a constant of the variable's dtype: 0.1 in float64 has no float32 digits, as
    # hyper-parameters have.
    in_variable_dtype = frozenset({"initial_accumulator_value"})

    @also_named(learning_rate="lr")
    def __init__(self, params: ParamsT, lr: float, initial_accumulator_value: float = 0.1) -> None:
        super().__init__(params, lr, initial_accumulator_value=initial_accumulator_value)

    @property
    def slot_names(self) -> tuple[str, ...]:
        """The name of the slot."""
        return ("accumulator",)

    def _check(self, group: dict[str, Any]) -> None:
        if not group["initial_accumulator_value"] > 0:
            raise LikeTfError(
                f"Adagrad: expected initial_accumulator_value > 0, got {group['initial_accumulator_value']}. "
                "Take TensorFlow's default, 0.1."
            )

    def _initial_slot_value(self, slot: str, group: dict[str, Any]) -> float:
        # torch starts at 0 and adds 1e-10 to the root: its first step is lr * sign(g) for every g, this one lr * g /
        # sqrt(0.1 + g * g). After 50 steps the weights are 0.81 of their largest change apart (docs/semantics.md).
        return float(group["initial_accumulator_value"])

    def _apply(
        self, params: list[Tensor], grads: list[Tensor], slots: dict[str, list[Tensor]], group: dict[str, Any]
    ) -> None:
        # The square goes in first: what a gradient is divided by holds that gradient too.
        accumulators = slots["accumulator"]
        torch._foreach_add_(accumulators, torch._foreach_mul(grads, grads))
        # The order of the kernel, (g * lr) * rsqrt(a): three roundings, and other ones than lr * (g / sqrt(a)).
        steps = torch._foreach_mul(grads, kernel_float(group["lr"], params[0].dtype))
        torch._foreach_mul_(steps, torch._foreach_rsqrt(accumulators))
        torch._foreach_sub_(params, steps)
