"""LARS and LAMB: steps whose length is a part of the length of each parameter."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from torch_ddp.like_tf.arguments import also_named
from torch_ddp.like_tf.errors import LikeTfError
from torch_ddp.like_tf.graph_scalar import graph_float, kernel_scalar
from torch_ddp.like_tf.optim.base import SlotOptimizer


class LARS(SlotOptimizer):
    """Updates ``a = a * momentum + (g + weight_decay * w) * lr * trust; w -= a``, with a trust for each parameter.

    ``trust = eeta * |w| / (|g| + weight_decay * |w| + eps)``, and 1 where ``|w|`` or ``|g|`` is 0. The rate is inside
    the buffer. A sparse gradient has neither trust nor decay, and the rate outside. Hyper-parameters are not rounded to
    float32, but for a sparse gradient. Source: tensorflow/contrib/opt/python/training/lars_optimizer.py, 1.15.

    Args:
        params: parameters or groups of them, as for torch.optim.
        lr: learning rate.
        momentum: weight of the old buffer.
        weight_decay: part of the weights that is added to the gradient.
        eeta: the LARS coefficient.
        eps: added to the divisor.
        nesterov: whether the update looks one step ahead.
        scaled: whether there are trust and decay; False in the group of the parameters that TensorFlow's skip_list names.

    Raises:
        LikeTfError: momentum or weight decay is negative.

    Counterpart: tf.contrib.opt.LARSOptimizer.
    """

    elementwise = False
    in_variable_dtype = frozenset({"lr", "momentum", "weight_decay", "eeta", "epsilon"})
    further_names: ClassVar[Mapping[str, str]] = {**SlotOptimizer.further_names, "nesterov": "use_nesterov"}

    @also_named(learning_rate="lr", epsilon="eps", use_nesterov="nesterov")
    def __init__(
        self,
        params: ParamsT,
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0001,
        eeta: float = 0.001,
        eps: float = 0.0,
        nesterov: bool = False,
        scaled: bool = True,
    ) -> None:
        super().__init__(
            params,
            lr,
            momentum=momentum,
            weight_decay=weight_decay,
            eeta=eeta,
            epsilon=eps,
            use_nesterov=nesterov,
            scaled=scaled,
        )

    @property
    def slot_names(self) -> tuple[str, ...]:
        """The names of the slots."""
        return ("momentum",)

    def _check(self, group: dict[str, Any]) -> None:
        for name in ("momentum", "weight_decay"):
            if group[name] < 0:
                raise LikeTfError(f"LARS: expected {name} >= 0, got {group[name]}. Give its size without the sign.")

    def _apply(
        self, params: list[Tensor], grads: list[Tensor], slots: dict[str, list[Tensor]], group: dict[str, Any]
    ) -> None:
        for param, grad, buffer in zip(params, grads, slots["momentum"], strict=True):
            scaled = grad * group["lr"]
            if group["scaled"]:
                trust = _trust(group["eeta"] * _norm(param), _norm(param), _norm(grad), group)
                scaled = (grad + group["weight_decay"] * param) * (group["lr"] * trust)
            buffer.mul_(group["momentum"]).add_(scaled)
            param.sub_(scaled + buffer * group["momentum"] if group["use_nesterov"] else buffer)

    def _apply_sparse(
        self, param: Tensor, rows: Tensor, values: Tensor, slots: dict[str, Tensor], group: dict[str, Any]
    ) -> None:
        lr, momentum = (kernel_scalar(group[name], param.dtype) for name in ("lr", "momentum"))
        buffer = slots["momentum"][rows] * momentum + values
        slots["momentum"][rows] = buffer
        steps = values * lr + buffer * momentum * lr if group["use_nesterov"] else buffer * lr
        param.index_add_(0, rows, steps, alpha=-1)


class LAMB(SlotOptimizer):
    """Updates ``u = m / (sqrt(v) + eps) + weight_decay * w; w -= u * lr * |w| / |u|``, for each parameter.

    The ratio is 1 where ``|w|`` or ``|u|`` is 0. The moments' bias is **not** corrected. TensorFlow's contrib has no
    LAMB: this is the one that TensorFlow 1 scripts carry along, of google-research/albert, lamb_optimizer.py.

    Args:
        params: parameters or groups of them, as for torch.optim; a group with ``weight_decay`` 0 is what
            exclude_from_weight_decay names.
        lr: learning rate.
        weight_decay: part of the weights that is added to the update.
        beta1: weight of the old first moment.
        beta2: weight of the old second moment.
        eps: added to the root of the second moment.
        scaled: whether there is a ratio; False in the group of what exclude_from_layer_adaptation names.
        betas: beta1 and beta2 at once, as torch.optim has them.

    Raises:
        LikeTfError: a gradient is sparse.

    Counterpart: LAMBOptimizer of google-research/albert.
    """

    elementwise = False
    # Rounded where they are used: 1 - beta is a difference of Python floats, rounded once.
    in_variable_dtype = frozenset({"beta1", "beta2"})

    @also_named(learning_rate="lr", weight_decay_rate="weight_decay", beta_1="beta1", beta_2="beta2", epsilon="eps")
    def __init__(
        self,
        params: ParamsT,
        lr: float,
        weight_decay: float = 0.0,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-6,
        scaled: bool = True,
        *,
        betas: tuple[float, float] | None = None,
    ) -> None:
        beta1, beta2 = betas or (beta1, beta2)
        super().__init__(params, lr, weight_decay=weight_decay, beta1=beta1, beta2=beta2, epsilon=eps, scaled=scaled)

    @property
    def slot_names(self) -> tuple[str, ...]:
        """The names of the slots."""
        return ("m", "v")

    def _apply(
        self, params: list[Tensor], grads: list[Tensor], slots: dict[str, list[Tensor]], group: dict[str, Any]
    ) -> None:
        old_m, old_v = (graph_float(group[name]) for name in ("beta1", "beta2"))
        new_m, new_v = (graph_float(1.0 - group[name]) for name in ("beta1", "beta2"))
        decay, lr = group["weight_decay"], graph_float(group["lr"])
        for param, grad, m, v in zip(params, grads, slots["m"], slots["v"], strict=True):
            m.mul_(old_m).add_(grad * new_m)
            v.mul_(old_v).add_(grad.square() * new_v)
            update = m / (v.sqrt() + group["epsilon"])
            if decay:
                update = update + decay * param
            ratio: Tensor | float = 1.0
            if group["scaled"]:
                ratio = _ratio(_norm(param), _norm(update))
            param.sub_(ratio * lr * update)

    def _apply_sparse(
        self, param: Tensor, rows: Tensor, values: Tensor, slots: dict[str, Tensor], group: dict[str, Any]
    ) -> None:
        raise LikeTfError("LAMB: expected a dense gradient, got a sparse one. Call to_dense() on it.")


def _norm(tensor: Tensor) -> Tensor:
    return tensor.square().sum().sqrt()


def _trust(scaled: Tensor, weights: Tensor, gradient: Tensor, group: dict[str, Any]) -> Tensor:
    divisor = gradient + group["weight_decay"] * weights + group["epsilon"]
    # Of 0 / 0 the quotient is NaN, and it is not taken.
    return torch.where((weights > 0) & (gradient > 0), scaled / divisor, 1.0)


def _ratio(weights: Tensor, update: Tensor) -> Tensor:
    return torch.where((weights > 0) & (update > 0), weights / update, 1.0)
