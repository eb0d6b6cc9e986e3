"""Models that switch the casts of O1 on for the thread that calls them, and recurrent layers that accept half."""

from typing import Any

import torch
from torch import nn

from torch_ddp.amp.model_cast import cast_values
from torch_ddp.amp.session import current_casts


def join_threads(model: nn.Module) -> None:
    """Installs the hooks of O1 on a model.

    Args:
        model: changed in place; deep copies work.
    """
    model.register_forward_pre_hook(_join)
    for module in model.modules():
        if isinstance(module, nn.RNNBase):
            module.register_forward_pre_hook(_in_dtype_of_weights, with_kwargs=True)


def _join(module: nn.Module, args: Any) -> None:
    casts = current_casts()
    if casts is not None:
        casts.join_thread()


def _in_dtype_of_weights(module: nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
    # The layer compares its input's dtype with its weights' before the function that casts both is reached.
    casts = current_casts()
    if casts is None or not casts.on_this_thread():
        return None
    dtype = next((weight.dtype for weight in module.parameters()), torch.float32)
    return cast_values(args, dtype), cast_values(kwargs, dtype)
