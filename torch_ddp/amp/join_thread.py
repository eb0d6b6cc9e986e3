"""Models that switch the casts of O1 on for the thread that calls them."""

from typing import Any

from torch import nn

from torch_ddp.amp.session import current_casts


def join_threads(model: nn.Module) -> None:
    """Installs the hook of O1 on a model.

    Args:
        model: changed in place; deep copies work.
    """
    model.register_forward_pre_hook(_join)


def _join(module: nn.Module, args: Any) -> None:
    casts = current_casts()
    if casts is not None:
        casts.join_thread()
