"""Layer-wise adaptive rate control, around any optimizer."""

from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from torch_ddp.amp.options import HALF_DTYPES


class LARC:
    """Scales each gradient by the ratio of its parameter's norm to its own, then lets the optimizer step.

    ``ratio = trust_coefficient * |w| / (|g| + weight_decay * |w| + eps)`` stands for the learning rate: the gradient becomes
    ``(g + weight_decay * w) * min(ratio / lr, 1)``, or without `clip` ``(g + weight_decay * w) * ratio``, and the optimizer
    adds no weight decay of its own. A parameter or gradient that is all zero is left as it is, without weight decay. Norms
    of half precision are taken in float32.

    Args:
      optimizer: any torch optimizer; learning rate schedulers are made with it, not with this.
      trust_coefficient: of the ratio; positive.
      clip: whether the learning rate is the smaller of the ratio and `lr`, or else their product.
      eps: added to the denominator.

    Source: You, Gitman, Ginsburg, "Large Batch Training of Convolutional Networks", 2017; apex/parallel/LARC.py, 25.04.

    Counterpart: apex.parallel.LARC.LARC
    """

    def __init__(
        self, optimizer: Optimizer, trust_coefficient: float = 0.02, clip: bool = True, eps: float = 1e-8
    ) -> None:
        self.optim = optimizer
        self.trust_coefficient = trust_coefficient
        self.eps = eps
        self.clip = clip

    def __getstate__(self) -> Any:
        return self.__dict__

    def __repr__(self) -> str:
        return repr(self.optim)

    @property
    def state(self) -> Any:
        """The optimizer's slots."""
        return self.optim.state

    @property
    def defaults(self) -> dict[str, Any]:
        """The optimizer's defaults."""
        return self.optim.defaults

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The optimizer's groups."""
        return self.optim.param_groups

    @param_groups.setter
    def param_groups(self, value: list[dict[str, Any]]) -> None:
        self.optim.param_groups = value

    def state_dict(self) -> dict[str, Any]:
        """Returns the optimizer's state."""
        return self.optim.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Overwrites the optimizer's state."""
        self.optim.load_state_dict(state_dict)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears the gradients."""
        self.optim.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Gives the optimizer more parameters."""
        self.optim.add_param_group(param_group)

    def step(self) -> None:
        """Scales the gradients in place and steps the optimizer."""
        # Decay is part of the scaled gradient, so that the optimizer must not add it again: 0 for the time of its
        # step.
        decays = [group.get("weight_decay", 0.0) for group in self.optim.param_groups]
        for group, decay in zip(self.optim.param_groups, decays, strict=True):
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._scale(parameter, parameter.grad, group["lr"], decay)
        try:
            for group in self.optim.param_groups:
                group["weight_decay"] = 0.0
            self.optim.step()
        finally:
            for group, decay in zip(self.optim.param_groups, decays, strict=True):
                group["weight_decay"] = decay

    @torch.no_grad()
    def _scale(self, parameter: Tensor, gradient: Tensor, rate: float, decay: float) -> None:
        # Shape [] each; of half tensors in float32, for a square beyond 65504 needs only a norm of 256.
        size, slope = _norm(parameter), _norm(gradient)
        ratio = self.trust_coefficient * size / (slope + size * decay + self.eps)
        if self.clip:
            # The optimizer multiplies by lr again: min(ratio / lr, 1) * lr = min(ratio, lr).
            ratio = (ratio / rate).clamp(max=1.0)
        # Chosen on the device: an `if` would wait for it at every parameter.
        moved = (size != 0) & (slope != 0)
        decayed = gradient + decay * parameter
        gradient.copy_(torch.where(moved, decayed * ratio.to(decayed.dtype), gradient))


def _norm(x: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(x, dtype=torch.float32 if x.dtype in HALF_DTYPES else None)
    return norm
