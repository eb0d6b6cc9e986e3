"""Proximal steps: l1 and l2 applied after the gradient, in closed form; and dual averaging."""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.optim.optimizer import ParamsT

from torch_ddp.like_tf.arguments import also_named
from torch_ddp.like_tf.errors import LikeTfError
from torch_ddp.like_tf.graph_scalar import kernel_scalar
from torch_ddp.like_tf.optim.base import SlotOptimizer

STRENGTHS = ("l1_regularization_strength", "l2_regularization_strength")


class ProximalGradientDescent(SlotOptimizer):
    """Updates ``p = w - g * lr; w = sign(p) * max(|p| - lr * l1, 0) / (1 + lr * l2)``.

    A sparse gradient moves the touched rows alone. Source: tensorflow/python/training/proximal_gradient_descent.py, 1.15,
    and kernels/training_ops.cc.

    Args:
        params: parameters or groups of them, as for torch.optim.
        lr: learning rate, positive.
        l1_regularization_strength: zero or positive.
        l2_regularization_strength: zero or positive.

    Raises:
        LikeTfError: a value is outside its range; TensorFlow's kernel refuses it in the first step.

    Counterpart: tf.compat.v1.train.ProximalGradientDescentOptimizer.
    """

    @also_named(learning_rate="lr")
    def __init__(
        self,
        params: ParamsT,
        lr: float,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
    ) -> None:
        super().__init__(
            params,
            lr,
            l1_regularization_strength=l1_regularization_strength,
            l2_regularization_strength=l2_regularization_strength,
        )

    def _check(self, group: dict[str, Any]) -> None:
        _check_ranges(type(self).__name__, group, positive=(), not_negative=STRENGTHS)

    def _apply(
        self, params: list[Tensor], grads: list[Tensor], slots: dict[str, list[Tensor]], group: dict[str, Any]
    ) -> None:
        lr, l1, l2 = _strengths(group, params[0])
        for param, grad in zip(params, grads, strict=True):
            param.copy_(_shrunk(param - grad * lr, lr, l1, l2, group))


class ProximalAdagrad(SlotOptimizer):
    """Updates ``accumulator += g * g`` and then as ProximalGradientDescent with ``lr / sqrt(accumulator)``.

    A sparse gradient moves the touched rows alone. Source: tensorflow/python/training/proximal_adagrad.py, 1.15, and
    kernels/training_ops.cc.

    Args:
        params: parameters or groups of them, as for torch.optim.
        lr: learning rate, positive.
        initial_accumulator_value: positive; cast to the variable's dtype without rounding to float32.
        l1_regularization_strength: zero or positive.
        l2_regularization_strength: zero or positive.

    Raises:
        LikeTfError: a value is outside its range.

    Counterpart: tf.compat.v1.train.ProximalAdagradOptimizer.
    """

    in_variable_dtype = frozenset({"initial_accumulator_value"})

    @also_named(learning_rate="lr")
    def __init__(
        self,
        params: ParamsT,
        lr: float,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
    ) -> None:
        super().__init__(
            params,
            lr,
            initial_accumulator_value=initial_accumulator_value,
            l1_regularization_strength=l1_regularization_strength,
            l2_regularization_strength=l2_regularization_strength,
        )

    @property
    def slot_names(self) -> tuple[str, ...]:
        """The name of the slot."""
        return ("accumulator",)

    def _check(self, group: dict[str, Any]) -> None:
        _check_ranges(type(self).__name__, group, positive=("initial_accumulator_value",), not_negative=STRENGTHS)

    def _initial_slot_value(self, slot: str, group: dict[str, Any]) -> float:
        return float(group["initial_accumulator_value"])

    def _apply(
        self, params: list[Tensor], grads: list[Tensor], slots: dict[str, list[Tensor]], group: dict[str, Any]
    ) -> None:
        lr, l1, l2 = _strengths(group, params[0])
        for param, grad, accumulator in zip(params, grads, slots["accumulator"], strict=True):
            accumulator.add_(grad.square())
            rates = lr * accumulator.rsqrt()
            param.copy_(_shrunk(param - grad * rates, rates, l1, l2, group))


class AdagradDA(SlotOptimizer):
    """Recomputes each weight: ``w = -lr * sign(G) * max(|G| - t * l1, 0) / (t * lr * l2 + sqrt(GG))``.

    G is the sum of the gradients, GG that of their squares from ``initial_gradient_squared_accumulator_value`` on, t the
    number of the step from 1, which lives in ``param_group["global_step"]`` before it is raised: TensorFlow reads it from
    the graph's global step. The weights that training starts from count for nothing after the first step. A sparse
    gradient moves the touched rows alone. Source: tensorflow/python/training/adagrad_da.py, 1.15, and
    kernels/training_ops.cc.

    Args:
        params: parameters or groups of them, as for torch.optim.
        lr: learning rate, positive.
        initial_gradient_squared_accumulator_value: positive; cast to the variable's dtype without rounding to float32.
        l1_regularization_strength: zero or positive.
        l2_regularization_strength: zero or positive.

    Raises:
        LikeTfError: a value is outside its range.

    Counterpart: tf.compat.v1.train.AdagradDAOptimizer.
    """

    in_variable_dtype = frozenset({"initial_gradient_squared_accumulator_value"})

    @also_named(learning_rate="lr")
    def __init__(
        self,
        params: ParamsT,
        lr: float,
        initial_gradient_squared_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
    ) -> None:
        super().__init__(
            params,
            lr,
            initial_gradient_squared_accumulator_value=initial_gradient_squared_accumulator_value,
            l1_regularization_strength=l1_regularization_strength,
            l2_regularization_strength=l2_regularization_strength,
        )

    @property
    def slot_names(self) -> tuple[str, ...]:
        """The names of the slots."""
        return ("gradient_accumulator", "gradient_squared_accumulator")

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group of parameters, its slots, and its count of steps.

        Args:
            param_group: ``{"params": parameters}`` and hyper-parameters that differ from the constructor's.
        """
        super().add_param_group(param_group)
        self.param_groups[-1].setdefault("global_step", 0)

    def _check(self, group: dict[str, Any]) -> None:
        positive = ("initial_gradient_squared_accumulator_value",)
        _check_ranges(type(self).__name__, group, positive=positive, not_negative=STRENGTHS)

    def _initial_slot_value(self, slot: str, group: dict[str, Any]) -> float:
        squared = slot == "gradient_squared_accumulator"
        return float(group["initial_gradient_squared_accumulator_value"]) if squared else 0.0

    def _apply(
        self, params: list[Tensor], grads: list[Tensor], slots: dict[str, list[Tensor]], group: dict[str, Any]
    ) -> None:
        lr, l1, l2 = _strengths(group, params[0])
        step = kernel_scalar(float(group["global_step"] + 1), params[0].dtype)
        rows = zip(params, grads, *(slots[name] for name in self.slot_names), strict=True)
        for param, grad, total, squares in rows:
            total.add_(grad)
            squares.add_(grad.square())
            descent = -lr * total
            if group["l1_regularization_strength"] > 0:
                descent = -lr * total.sign() * (total.abs() - l1 * step).clamp_(min=0.0)
            param.copy_(descent / (l2 * step * lr + squares.sqrt()))

    def _finish(self, group: dict[str, Any]) -> None:
        group["global_step"] += 1


def _strengths(group: dict[str, Any], param: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    lr, l1, l2 = (kernel_scalar(group[name], param.dtype) for name in ("lr", *STRENGTHS))
    return lr, l1, l2


def _shrunk(stepped: Tensor, rates: Tensor, l1: Tensor, l2: Tensor, group: dict[str, Any]) -> Tensor:
    # The minimum of (w - stepped)^2 / (2 rate) + l1 |w| + l2 w^2 / 2, for each element by itself.
    if group["l1_regularization_strength"] > 0:
        stepped = stepped.sign() * (stepped.abs() - rates * l1).clamp_(min=0.0)
    return stepped / (1.0 + l2 * rates)


def _check_ranges(who: str, group: dict[str, Any], positive: tuple[str, ...], not_negative: tuple[str, ...]) -> None:
    ranges: list[tuple[str, str, Callable[[float], bool]]] = [
        *((name, "> 0", lambda value: value > 0) for name in positive),
        *((name, ">= 0", lambda value: value >= 0) for name in not_negative),
    ]
    for name, limit, holds in ranges:
        if not holds(group[name]):
            raise LikeTfError(f"{who}: expected {name} {limit}, got {group[name]}. Take TensorFlow's default.")
