"""Follow the regularized leader, which torch does not have."""

from typing import Any

from torch import Tensor
from torch.optim.optimizer import ParamsT

from torch_ddp.like_tf.arguments import also_named
from torch_ddp.like_tf.errors import LikeTfError
from torch_ddp.like_tf.graph_scalar import kernel_scalar
from torch_ddp.like_tf.optim.base import SlotOptimizer


class Ftrl(SlotOptimizer):
    """Recomputes each weight from its sums: ``w = (sign(linear) * l1 - linear) / (accum^-power / lr + 2 * l2)``.

    Where ``|linear| <= l1`` the weight is zero, so that a weight that never had a gradient becomes zero at the first
    dense step. The strength of l2 is doubled, and shrinkage adds ``2 * shrinkage * w`` to the gradient in ``linear``
    alone. A sparse gradient moves the touched rows alone. Source: tensorflow/python/training/ftrl.py, 1.15, and
    kernels/training_ops.cc.

    Args:
        params: parameters or groups of them, as for torch.optim.
        lr: learning rate.
        learning_rate_power: zero or negative.
        initial_accumulator_value: zero or positive; cast to the variable's dtype without rounding to float32.
        l1_regularization_strength: zero or positive.
        l2_regularization_strength: zero or positive; a stabilisation, not a decay.
        l2_shrinkage_regularization_strength: zero or positive; a decay by magnitude.

    Raises:
        LikeTfError: a value is outside its range.

    Counterpart: tf.compat.v1.train.FtrlOptimizer.
    """

    in_variable_dtype = frozenset({"initial_accumulator_value"})

    @also_named(learning_rate="lr")
    def __init__(
        self,
        params: ParamsT,
        lr: float,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        l2_shrinkage_regularization_strength: float = 0.0,
    ) -> None:
        super().__init__(
            params,
            lr,
            learning_rate_power=learning_rate_power,
            initial_accumulator_value=initial_accumulator_value,
            l1_regularization_strength=l1_regularization_strength,
            l2_regularization_strength=l2_regularization_strength,
            l2_shrinkage_regularization_strength=l2_shrinkage_regularization_strength,
        )

    @property
    def slot_names(self) -> tuple[str, ...]:
        """The names of the slots."""
        return ("accum", "linear")

    def _check(self, group: dict[str, Any]) -> None:
        if group["learning_rate_power"] > 0:
            raise LikeTfError(
                f"Ftrl: expected learning_rate_power <= 0, got {group['learning_rate_power']}. "
                "Take TensorFlow's default, -0.5."
            )
        for name, value in group.items():
            if name.endswith(("_strength", "_value")) and value < 0:
                raise LikeTfError(f"Ftrl: expected {name} >= 0, got {value}. Give its size without the sign.")

    def _initial_slot_value(self, slot: str, group: dict[str, Any]) -> float:
        return float(group["initial_accumulator_value"]) if slot == "accum" else 0.0

    def _apply(
        self, params: list[Tensor], grads: list[Tensor], slots: dict[str, list[Tensor]], group: dict[str, Any]
    ) -> None:
        for index, (param, grad) in enumerate(zip(params, grads, strict=True)):
            self._apply_one(param, grad, slots["accum"][index], slots["linear"][index], group)

    def _apply_one(self, param: Tensor, grad: Tensor, accum: Tensor, linear: Tensor, group: dict[str, Any]) -> None:
        dtype = param.dtype
        # The power stays a Python number: it was rounded to float32 when it came in, and 0.5 is exact in every dtype.
        lr, power = kernel_scalar(group["lr"], dtype), -group["learning_rate_power"]
        l1 = kernel_scalar(group["l1_regularization_strength"], dtype)
        l2 = kernel_scalar(group["l2_regularization_strength"], dtype)
        shrinkage = kernel_scalar(group["l2_shrinkage_regularization_strength"], dtype)
        # sigma = (accum_new^p - accum^p) / lr is by how much the quadratic term of the proximal problem grows: linear
        # += g - sigma * w moves the minimum from w by g alone. old, new, linear: the shape and dtype of the
        # parameter.
        old = accum.pow(power)
        new = accum.add_(grad.square()).pow(power)
        # Shrinkage is in linear and not in accum, where it would lower the learning rate (ApplyFtrlV2 in
        # training_ops.cc).
        linear.add_((grad + 2.0 * shrinkage * param).sub_(((new - old) / lr).mul_(param)))
        # For each weight by itself the minimum of linear * w + l1 * |w| + (new / lr + 2 * l2) / 2 * w^2.
        weights = (l1 * linear.sign()).sub_(linear).div_((new / lr).add_(2.0 * l2))
        # Chosen after the division: where accum, linear and l2 are 0 the quotient is 0 / 0, and it is not taken.
        param.copy_(weights.where(linear.abs() > l1, 0.0))
