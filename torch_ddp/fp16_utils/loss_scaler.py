"""Loss scalers of loops written by hand, which look at the gradients and at the scale themselves."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor


class LossScaler:
    """Holds a loss scale that stays.

    Args:
        scale: the factor on the loss.

    Attributes:
        cur_scale: the same.

    Counterpart: apex.fp16_utils.LossScaler
    """

    def __init__(self, scale: float = 1) -> None:
        self.cur_scale = scale

    @property
    def loss_scale(self) -> float:
        """The factor on the loss."""
        return self.cur_scale

    def has_overflow(self, params: Iterable[Tensor]) -> bool:
        """Returns False: a scale that stays looks at nothing."""
        return False

    def update_scale(self, overflow: bool) -> None:
        """Does nothing."""

    def scale_gradient(self, module: object, grad_in: Sequence[Tensor], grad_out: object) -> tuple[Tensor, ...]:
        """Returns the gradients times the scale, as a backward hook of a module.

        Args:
            module: not looked at.
            grad_in: to be scaled.
            grad_out: not looked at.
        """
        return tuple(self.loss_scale * grad for grad in grad_in)

    def backward(self, loss: Tensor, retain_graph: bool = False) -> None:
        """Differentiates the loss times the scale.

        Args:
            loss: a scalar.
            retain_graph: as of ``loss.backward``.
        """
        (loss * self.loss_scale).backward(retain_graph=retain_graph)  # type: ignore[no-untyped-call]


class DynamicLossScaler:
    """Holds a loss scale that an overflow lowers, and `scale_window` updates without one raise.

    Args:
        init_scale: the first scale; 2^32, unlike `torch_ddp.amp`'s 2^16.
        scale_factor: what it is divided and multiplied by; it never falls below 1.
        scale_window: updates since the last overflow, at whose multiples it grows.

    Attributes:
        cur_scale: the factor on the loss.
        cur_iter: updates so far.
        last_overflow_iter: the number of the last with an overflow, or -1.

    Counterpart: apex.fp16_utils.DynamicLossScaler
    """

    def __init__(self, init_scale: float = 2**32, scale_factor: float = 2.0, scale_window: int = 1000) -> None:
        self.cur_scale = init_scale
        self.cur_iter = 0
        self.last_overflow_iter = -1
        self.scale_factor = scale_factor
        self.scale_window = scale_window

    @property
    def loss_scale(self) -> float:
        """The factor on the loss."""
        return self.cur_scale

    def has_overflow(self, params: Iterable[Tensor]) -> bool:
        """Returns whether a gradient holds an infinity or a NaN.

        Each element is looked at; Apex looks at the sum in float32, which may overflow where no element has.

        Args:
            params: those without a gradient are passed over.
        """
        return any(param.grad is not None and self._has_inf_or_nan(param.grad) for param in params)

    @staticmethod
    def _has_inf_or_nan(x: Tensor) -> bool:
        return not bool(torch.isfinite(x).all())

    def update_scale(self, overflow: bool) -> None:
        """Moves the scale after a step.

        Args:
            overflow: whether that step had one.
        """
        if overflow:
            self.cur_scale = max(self.cur_scale / self.scale_factor, 1)
            self.last_overflow_iter = self.cur_iter
        # The first growth comes after scale_window - 1 updates: Apex counts from -1.
        elif (self.cur_iter - self.last_overflow_iter) % self.scale_window == 0:
            self.cur_scale *= self.scale_factor
        self.cur_iter += 1

    def scale_gradient(self, module: object, grad_in: Sequence[Tensor], grad_out: object) -> tuple[Tensor, ...]:
        """Returns the gradients times the scale, as a backward hook of a module.

        Args:
            module: not looked at.
            grad_in: to be scaled.
            grad_out: not looked at.
        """
        return tuple(self.loss_scale * grad for grad in grad_in)

    def backward(self, loss: Tensor, retain_graph: bool = False) -> None:
        """Differentiates the loss times the scale.

        Args:
            loss: a scalar.
            retain_graph: as of ``loss.backward``.
        """
        (loss * self.loss_scale).backward(retain_graph=retain_graph)  # type: ignore[no-untyped-call]
