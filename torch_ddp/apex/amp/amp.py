"""Casts without a model, as Apex's old interface began them."""

from torch_ddp.amp import (
    float_function,
    half_function,
    promote_function,
    register_float_function,
    register_half_function,
    register_promote_function,
)
from torch_ddp.amp.session import current
from torch_ddp.apex.amp.frontend import initialize
from torch_ddp.apex.amp.handle import AmpHandle, NoOpHandle

__all__ = [
    "float_function",
    "half_function",
    "init",
    "promote_function",
    "register_float_function",
    "register_half_function",
    "register_promote_function",
]


def init(
    enabled: bool = True,
    loss_scale: float | str = "dynamic",
    enable_caching: bool = True,
    verbose: bool = False,
    allow_banned: bool = False,
) -> AmpHandle | NoOpHandle:
    """Begins the casts of O1 without a model, and returns their handle.

    Args:
        enabled: False casts nothing.
        loss_scale: of a loss scaled without an optimizer of `wrap_optimizer`.
        enable_caching: shown by the handle; half copies of weights are shared in any case.
        verbose: shown by the handle.
        allow_banned: runs functions that O1 bans in float32.

    Counterpart: apex.amp.init
    """
    initialize([], enabled=enabled, loss_scale=loss_scale, allow_banned=allow_banned, verbosity=int(verbose))
    return AmpHandle(current("amp.init").casts, enable_caching, verbose) if enabled else NoOpHandle()
