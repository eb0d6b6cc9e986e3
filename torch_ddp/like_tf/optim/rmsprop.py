"""RMSProp with epsilon inside the root and the learning rate inside the momentum."""

from typing import Any

from torch import Tensor
from torch.optim.optimizer import ParamsT

from torch_ddp.like_tf.graph_scalar import kernel_scalar
from torch_ddp.like_tf.optim.base import SlotOptimizer


class RMSProp(SlotOptimizer):
    """Updates ``mom = mom * momentum + g * lr / sqrt(rms + epsilon); w -= mom``.

    ``rms`` is the moving average of ``g * g`` and starts at **one**; with ``centered`` the root is of
    ``rms - mg * mg + epsilon``, where ``mg`` is the moving average of ``g``. A sparse gradient moves the touched rows
    alone. Source: tensorflow/python/training/rmsprop.py, 1.15, and kernels/training_ops.cc.

    Args:
        params: parameters or groups of them, as for torch.optim.
        lr: learning rate.
        decay: weight of the old average.
        momentum: weight of the old update.
        epsilon: added under the root.
        centered: whether the average gradient is subtracted.

    Counterpart: tf.compat.v1.train.RMSPropOptimizer.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float,
        decay: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-10,
        centered: bool = False,
    ) -> None:
        super().__init__(params, lr, decay=decay, momentum=momentum, epsilon=epsilon, centered=centered)

    @property
    def slot_names(self) -> tuple[str, ...]:
        """The names of the slots; ``mg`` is there when centered."""
        return ("rms", "mg", "momentum") if self.defaults["centered"] else ("rms", "momentum")

    def _initial_slot_value(self, slot: str, group: dict[str, Any]) -> float:
        # torch starts at 0: its first step divides by about |g| * sqrt(1 - decay), this one by about 1. With the rate
        # inside and epsilon under the root the weights are 1.0 of their largest change apart after 50 steps
        # (docs/semantics.md).
        return 1.0 if slot == "rms" else 0.0

    def _apply_dense(self, param: Tensor, grad: Tensor, slots: dict[str, Tensor], group: dict[str, Any]) -> None:
        # 1 - decay of float32 numbers, in the parameter's dtype: of 0.9 it is 2.4e-7 of itself more than 0.1.
        rate = 1.0 - kernel_scalar(group["decay"], param.dtype)
        rms, momentum = slots["rms"], slots["momentum"]
        rms.add_((grad.square() - rms).mul_(rate))
        variance = rms
        if "mg" in slots:
            mean = slots["mg"]
            mean.add_((grad - mean).mul_(rate))
            # Not below 0 but for rounding: rms is a mean of squares, with a 1 at the start, and mg one of the same
            # numbers.
            variance = rms - mean.square()
        # The least that a gradient is divided by is sqrt(1e-10) = 1e-5 with the defaults; torch adds 1e-8 to the
        # root.
        root = (variance + kernel_scalar(group["epsilon"], param.dtype)).sqrt_()
        update = (grad * kernel_scalar(group["lr"], param.dtype)).div_(root)
        # The rate is inside: a schedule changes what is added from now on, where torch scales the whole buffer by the
        # present rate.
        momentum.mul_(kernel_scalar(group["momentum"], param.dtype)).add_(update)
        param.sub_(momentum)
