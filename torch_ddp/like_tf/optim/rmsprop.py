"""RMSProp with epsilon inside the root and the learning rate inside the momentum."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from torch_ddp.like_tf.arguments import also_named
from torch_ddp.like_tf.graph_scalar import kernel_float, kernel_scalar
from torch_ddp.like_tf.optim.base import SlotOptimizer
from torch_ddp.like_tf.optim.pieces import Many


class RMSProp(SlotOptimizer):
    """Updates ``mom = mom * momentum + g * lr / sqrt(rms + epsilon); w -= mom``.

    ``rms`` is the moving average of ``g * g`` and starts at **one**; with ``centered`` the root is of
    ``rms - mg * mg + epsilon``, where ``mg`` is the moving average of ``g``. A sparse gradient moves the touched rows
    alone. Source: tensorflow/python/training/rmsprop.py, 1.15, and kernels/training_ops.cc.

    Args:
        params: parameters or groups of them, as for torch.optim.
        lr: learning rate.
        alpha: weight of the old average.
        momentum: weight of the old update.
        eps: added under the root.
        centered: whether the average gradient is subtracted.

    Counterpart: tf.compat.v1.train.RMSPropOptimizer.
    """

    further_names: ClassVar[Mapping[str, str]] = {**SlotOptimizer.further_names, "alpha": "decay"}

    @also_named(learning_rate="lr", decay="alpha", epsilon="eps")
    def __init__(
        self,
        params: ParamsT,
        lr: float,
        alpha: float = 0.9,
        momentum: float = 0.0,
        eps: float = 1e-10,
        centered: bool = False,
    ) -> None:
        super().__init__(params, lr, decay=alpha, momentum=momentum, epsilon=eps, centered=centered)

    @property
    def slot_names(self) -> tuple[str, ...]:
        """The names of the slots; ``mg`` is there when centered."""
        return ("rms", "mg", "momentum") if self.defaults["centered"] else ("rms", "momentum")

    def _initial_slot_value(self, slot: str, group: dict[str, Any]) -> float:
        # torch starts at 0: its first step divides by about |g| * sqrt(1 - decay), this one by about 1. With the rate
        # inside and epsilon under the root the weights are 1.0 of their largest change apart after 50 steps
        # (docs/semantics.md).
        return 1.0 if slot == "rms" else 0.0

    def _apply(
        self, params: list[Tensor], grads: list[Tensor], slots: dict[str, list[Tensor]], group: dict[str, Any]
    ) -> None:
        dtype = params[0].dtype
        lr, momentum, epsilon = (kernel_float(group[name], dtype) for name in ("lr", "momentum", "epsilon"))
        # 1 - decay of float32 numbers, in the parameter's dtype: of 0.9 it is 2.4e-7 of itself more than 0.1.
        rate = (1.0 - kernel_scalar(group["decay"], dtype)).item()
        squares, momenta = slots["rms"], slots["momentum"]
        _move(squares, torch._foreach_mul(grads, grads), rate)
        if "mg" in slots:
            means = slots["mg"]
            _move(means, grads, rate)
            # Not below 0 but for rounding: rms is a mean of squares, with a 1 at the start, and mg one of the same
            # numbers.
            roots = torch._foreach_sub(squares, torch._foreach_mul(means, means))
            torch._foreach_add_(roots, epsilon)
        else:
            roots = torch._foreach_add(squares, epsilon)
        # The least that a gradient is divided by is sqrt(1e-10) = 1e-5 with the defaults; torch adds 1e-8 to the
        # root.
        torch._foreach_sqrt_(roots)
        updates = torch._foreach_mul(grads, lr)
        torch._foreach_div_(updates, roots)
        # The rate is inside: a schedule changes what is added from now on, where torch scales the whole buffer by the
        # present rate.
        torch._foreach_mul_(momenta, momentum)
        torch._foreach_add_(momenta, updates)
        torch._foreach_sub_(params, momenta)


def _move(averages: list[Tensor], values: Many, rate: float) -> None:
    # average += (value - average) * rate, three roundings.
    changes = torch._foreach_sub(values, averages)
    torch._foreach_mul_(changes, rate)
    torch._foreach_add_(averages, changes)
