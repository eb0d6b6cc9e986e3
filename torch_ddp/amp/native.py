"""The precision of torch itself behind amp's calls: `torch.autocast` around models and `torch.amp.GradScaler`."""

import threading
from typing import Any

import torch
from torch import nn

from torch_ddp.amp.loss_scaler import LossScaler
from torch_ddp.amp.model import cast_values


# A stack for each thread, as calls nest: models inside models, and threads of DataParallel beside each other.
class _Entered(threading.local):
    def __init__(self) -> None:
        self.contexts: list[torch.autocast] = []


_entered = _Entered()


def autocast_model(model: nn.Module, half: torch.dtype, outputs: torch.dtype | None) -> None:
    """Runs every call of a model under `torch.autocast`, on whatever thread, and casts what it returns.

    Outputs are cast because a loss computed outside the model would otherwise run in half precision, beyond
    autocast's reach.

    Args:
        model: changed in place, by hooks.
        half: dtype of autocast.
        outputs: dtype of the outputs; None is float32.
    """
    model.register_forward_pre_hook(_Enter(half))
    # always_call: a forward pass that raises has to leave autocast too. Outputs are cast after it is left.
    model.register_forward_hook(_leave, prepend=True, always_call=True)
    model.register_forward_hook(_OutputsIn(outputs or torch.float32))


class _Enter:
    def __init__(self, half: torch.dtype) -> None:
        self.half = half

    def __call__(self, module: nn.Module, args: Any) -> None:
        # Asked at each call: the model may have been moved since `initialize`.
        context = torch.autocast(device_type_of(module), dtype=self.half)
        context.__enter__()  # type: ignore[no-untyped-call]
        _entered.contexts.append(context)


def _leave(module: nn.Module, args: Any, output: Any) -> None:
    _entered.contexts.pop().__exit__(None, None, None)


class _OutputsIn:
    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def __call__(self, module: nn.Module, args: Any, output: Any) -> Any:
        return cast_values(output, self.dtype)


def device_type_of(model: nn.Module) -> str:
    """Returns the type of the device of a model's first weight, or "cpu" where it has none.

    Args:
        model: any.
    """
    first = next(model.parameters(), None)
    return "cpu" if first is None else first.device.type


class GradScalerAsLossScaler(LossScaler):
    """Lets `torch.amp.GradScaler` keep the scale and unscale the gradients, between the same calls.

    It is updated after every backward pass, where the usual loop updates it after every step.
    """

    def __init__(self, device_type: str) -> None:
        """Makes the scaler with torch's defaults, which are Apex's without cap and floor.

        Args:
            device_type: "cpu" or "cuda".
        """
        # Only the scale and the count of the base class are used, as mirrors of what GradScaler keeps.
        super().__init__("dynamic", maximum=None)
        self.grad_scaler = torch.amp.GradScaler(device_type)

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        """Returns the loss times the scale.

        Args:
            loss: a scalar.
        """
        scaled: torch.Tensor = self.grad_scaler.scale(loss)
        return scaled

    def unscale_and_update(self, optimizers: list[torch.optim.Optimizer]) -> bool:
        """Unscales the gradients of the optimizers and moves the scale.

        Args:
            optimizers: of one backward pass.

        Returns:
            True where the steps must be skipped, seen by the scale going down.
        """
        # GradScaler raises where nothing was checked: for an optimizer without any gradient, and in `update` without
        # one.
        with_grads = [optimizer for optimizer in optimizers if _has_grads(optimizer)]
        for optimizer in with_grads:
            self.grad_scaler.unscale_(optimizer)
        before = self.grad_scaler.get_scale()
        if with_grads:
            self.grad_scaler.update()
        self.loss_scale = self.grad_scaler.get_scale()
        # state_dict() is empty for a scaler that is disabled, hence the default.
        self.unskipped = self.grad_scaler.state_dict().get("_growth_tracker", 0)
        # GradScaler has no public word on whether it skipped: a scale that fell tells, and it falls with an overflow
        # alone.
        return self.loss_scale < before

    def set_state(self, loss_scale: float, unskipped: int) -> None:
        """Sets the scale and the count of clean passes.

        Args:
            loss_scale: above 0.
            unskipped: at least 0.
        """
        super().set_state(loss_scale, unskipped)
        state = self.grad_scaler.state_dict()
        self.grad_scaler.load_state_dict(state | {"scale": loss_scale, "_growth_tracker": unskipped})


def _has_grads(optimizer: torch.optim.Optimizer) -> bool:
    return any(param.grad is not None for group in optimizer.param_groups for param in group["params"])
