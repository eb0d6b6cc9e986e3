"""The context in which a scaled loss is differentiated."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from torch_ddp.amp.errors import AmpError
from torch_ddp.amp.loss_scaler import LossScaler
from torch_ddp.amp.native import GradScalerAsLossScaler
from torch_ddp.amp.session import Session, current, disable_casts
from torch_ddp.amp.stash import Stash, stash_of
from torch_ddp.amp.unscale import add_set_aside, put_back, set_aside, unscale

Passed = list[tuple[torch.optim.Optimizer, Stash]]


@contextmanager
def scale_loss(
    loss: torch.Tensor,
    optimizers: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
    loss_id: int = 0,
    model: nn.Module | None = None,
    delay_unscale: bool = False,
    delay_overflow_check: bool = False,
) -> Iterator[torch.Tensor]:
    """Gives the loss times the loss scale, to call `backward` on.

    On leaving, the gradients are unscaled and the scale moves. Where a gradient overflowed, the next `step` of every
    optimizer passed here is skipped.

    Args:
        loss: a scalar; computed in float32 at least from here on.
        optimizers: one or several, all whose weights get gradients from this loss.
        loss_id: which of the `num_losses` scalers to use.
        model: unused, as in Apex.
        delay_unscale: leaves the gradients scaled, for the next `scale_loss` to unscale. Needed where they are summed
            locally first (`no_sync` of DistributedDataParallel).
        delay_overflow_check: leaves it to the next `scale_loss` with this `loss_id` to count an overflow of this one.

    Yields:
        The scaled loss, shape [].

    Raises:
        AmpError: `initialize` was not called, an argument did not go through it, the scale has fallen to 0, or gradients
            wait that another scale was applied to.
    """
    session = current("amp.scale_loss")
    if not session.enabled:
        yield loss
        return
    passed = _passed(optimizers)
    scaler = _scaler(session, loss_id)
    if _needs_nothing(session, scaler):
        yield _at_least_float32(loss)
        _drop_cache(session)
        return
    scaled = _begin(passed, scaler, loss)
    try:
        yield scaled
    except BaseException:
        for _, stash in passed:
            put_back(stash)
        raise
    _drop_cache(session)
    with disable_casts(), torch.no_grad():
        if delay_unscale:
            for _, stash in passed:
                stash.delayed_scale = scaler.loss_scale
        elif _overflowed(passed, scaler, delay_overflow_check):
            _skip_next_step(passed, session, scaler, loss_id)


def _passed(optimizers: torch.optim.Optimizer | Sequence[torch.optim.Optimizer]) -> Passed:
    several: Any = [optimizers] if hasattr(optimizers, "param_groups") else optimizers
    return [(optimizer, stash_of(optimizer, "amp.scale_loss")) for optimizer in several]


def _scaler(session: Session, loss_id: int) -> LossScaler:
    count = len(session.scalers)
    if not 0 <= loss_id < count:
        raise AmpError(
            f"amp.scale_loss: expected loss_id from 0 to {count - 1}, got {loss_id}. "
            f"Pass num_losses={loss_id + 1} to amp.initialize, or another loss_id."
        )
    return session.scalers[loss_id]


def _needs_nothing(session: Session, scaler: LossScaler) -> bool:
    return not session.properties.master_weights and not scaler.dynamic and scaler.loss_scale == 1.0


def _at_least_float32(loss: torch.Tensor) -> torch.Tensor:
    return loss if loss.dtype is torch.float64 else loss.float()


def _begin(passed: Passed, scaler: LossScaler, loss: torch.Tensor) -> torch.Tensor:
    if scaler.loss_scale == 0:
        raise AmpError(
            "amp.scale_loss: expected a loss scale above 0, got 0 after endless overflows. "
            "Look for a NaN in the loss; min_loss_scale sets a floor."
        )
    with disable_casts():
        for optimizer, stash in passed:
            if stash.delayed_scale is None:
                set_aside(optimizer, stash)
            elif stash.delayed_scale != scaler.loss_scale:
                raise AmpError(
                    f"amp.scale_loss: expected the loss scale {stash.delayed_scale} of the gradients that wait since "
                    f"delay_unscale=True, got {scaler.loss_scale}. Use the same loss_id, or do not delay."
                )
        if isinstance(scaler, GradScalerAsLossScaler):
            return scaler.scale(_at_least_float32(loss))
        return _at_least_float32(loss) * scaler.loss_scale


def _overflowed(passed: Passed, scaler: LossScaler, delay_check: bool) -> bool:
    if isinstance(scaler, GradScalerAsLossScaler):
        skip = scaler.unscale_and_update([optimizer for optimizer, _ in passed])
    else:
        for optimizer, stash in passed:
            scaler.found += unscale(optimizer, stash, scaler.loss_scale)
        skip = False if delay_check else scaler.update(scaler.take_found())
    for _, stash in passed:
        add_set_aside(stash)
        stash.delayed_scale = None
    return skip


def _skip_next_step(passed: Passed, session: Session, scaler: LossScaler, loss_id: int) -> None:
    message = (
        f"Gradient overflow.  Skipping step, loss scaler {loss_id} reducing loss scale to {scaler.loss_scale}"
        if session.verbosity
        else ""
    )
    for _, stash in passed:
        stash.skip_message = message


def _drop_cache(session: Session) -> None:
    if session.casts is not None:
        session.casts.mode.cache.clear()
