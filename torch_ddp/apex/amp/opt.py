"""The optimizer of Apex's old interface, which scales losses itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from torch_ddp.amp import AmpError, disable_casts
from torch_ddp.apex.amp.scaler import LossScaler

if TYPE_CHECKING:
    from torch_ddp.apex.amp.handle import AmpHandle, NoOpHandle

__all__ = ["OptimWrapper"]


class OptimWrapper:
    """Steps an optimizer over gradients of scaled losses, unless one of them overflowed.

    Everything else of the optimizer is reached through it.

    Args:
        optimizer: which `amp.initialize` was not given.
        amp_handle: from `amp.init`; where it casts nothing, nothing is scaled either.
        num_loss: calls of `scale_loss` before each step, with a dynamic scale each.

    Counterpart: apex.amp.opt.OptimWrapper
    """

    def __init__(self, optimizer: Any, amp_handle: "AmpHandle | NoOpHandle", num_loss: int) -> None:
        self._optimizer = optimizer
        self._amp_handle = amp_handle
        self._loss_scaler = [LossScaler("dynamic") for _ in range(num_loss)]
        self._skip_next = [False] * num_loss
        self._loss_idx = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_optimizer"], name)

    @contextmanager
    def scale_loss(self, loss: Tensor) -> Iterator[Tensor]:
        """Gives the scaled loss, to call `backward` on; on leaving, gradients are unscaled and the scale moves.

        Args:
            loss: a scalar.

        Raises:
            AmpError: more losses than `num_loss` since the last step, or the scale has fallen below 2^-127.
        """
        if not self._amp_handle.is_active():
            yield loss
            return
        if self._loss_idx == len(self._loss_scaler):
            raise AmpError(
                f"OptimWrapper.scale_loss: expected {self._loss_idx} losses before a step, got another. "
                f"Pass num_loss={self._loss_idx + 1} to wrap_optimizer."
            )
        scaler = self._loss_scaler[self._loss_idx]
        scaler._automaton.check("OptimWrapper.scale_loss")
        # Gradients of earlier losses are unscaled already.
        earlier = self._take_gradients() if self._loss_idx else []
        yield loss * scaler.loss_scale()
        with disable_casts(), torch.no_grad():
            scaler.clear_overflow_state()
            grads = [param.grad for param in self._params()]
            scaler.unscale(grads, grads)
            self._skip_next[self._loss_idx] = scaler.update_scale()
            for param, grad in earlier:
                param.grad = grad if param.grad is None else param.grad.add_(grad)
        self._loss_idx += 1

    def _params(self) -> list[Tensor]:
        return [param for group in self._optimizer.param_groups for param in group["params"]]

    def _take_gradients(self) -> list[tuple[Tensor, Tensor]]:
        taken = [(param, param.grad) for param in self._params() if param.grad is not None]
        for param, _ in taken:
            param.grad = None
        return taken

    def step(self, closure: Any = None) -> Any:
        """Steps, unless a gradient since the last step overflowed.

        Args:
            closure: refused while casts are on, as in Apex.

        Raises:
            AmpError: a closure was passed.
        """
        if not self._amp_handle.is_active():
            return self._optimizer.step(closure=closure)
        if closure is not None:
            raise AmpError("OptimWrapper.step: expected no closure, got one. Call backward before step().")
        skips, self._skip_next = any(self._skip_next), [False] * len(self._skip_next)
        self._loss_idx = 0
        self._amp_handle._clear_cache()
        if skips:
            print("Gradient overflow, skipping update")
            return None
        with disable_casts():
            return self._optimizer.step()
