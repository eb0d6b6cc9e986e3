"""Scales a loss around its backward pass, and unscales, checks and sums the gradients after it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from torch_ddp.amp.errors import AmpError
from torch_ddp.amp.loss_scaler import LossScaler
from torch_ddp.amp.native import GradScalerAsLossScaler
from torch_ddp.amp.optimizer_state import Stash, make_masters, stash_of
from torch_ddp.amp.session import Session, current, disable_casts, take_in


def set_aside(optimizer: torch.optim.Optimizer, stash: Stash) -> None:
    """Empties the gradients so that the backward pass leaves only its own, scaled ones.

    Earlier passes' gradients are unscaled already and wait in the stash, or on the masters. They are copied, because
    DistributedDataParallel may reuse their memory in the pass.

    Args:
        optimizer: whose gradients move.
        stash: where they go.
    """
    make_masters(optimizer, stash)
    for weight, _ in stash.pairs:
        weight.grad = None
    stash.set_aside = []
    for param in direct_params(optimizer, stash):
        grad = param.grad
        if grad is not None:
            # Unscaled gradients are added to unscaled ones, which lets the scale change between micro-batches; the
            # sums of GradScaler stay scaled until the step.
            stash.set_aside.append((param, grad.clone()))
            param.grad = None


def put_back(stash: Stash) -> None:
    """Returns the gradients set aside, after a backward pass that broke off.

    Args:
        stash: where they are.
    """
    for param, grad in stash.set_aside:
        param.grad = grad
    stash.set_aside = []


def unscale(optimizer: torch.optim.Optimizer, stash: Stash, scale: float) -> list[torch.Tensor]:
    """Divides the gradients of a backward pass by the loss scale, half gradients in float32.

    Args:
        optimizer: with the scaled gradients.
        stash: of the optimizer.
        scale: the loss scale, above 0.

    Returns:
        One float32 tensor of one element per device, above 0 where a gradient there held an infinity or a NaN.
    """
    # (float32 master, float32 copy of its half weight's gradient): divided in float32, for a half gradient of 2^-24
    # divided by 2^16 is 0. The half gradient stays scaled, as in Apex. GradScaler refuses half gradients altogether
    # (pytorch 74739).
    fresh = [(master, _float(weight.grad)) for weight, master in stash.pairs if weight.grad is not None]
    grads = [grad for _, grad in fresh]
    for param in direct_params(optimizer, stash):
        grad = param.grad
        if grad is not None:
            if grad.is_sparse:
                # Before the check: two finite values of one row may sum to infinity.
                param.grad = grad = grad.coalesce()
            grads.append(grad)
    found = _check_and_divide(grads, scale)
    for master, grad in fresh:
        # No copy: `_float` made one already, and float32 gradients of half weights do not exist.
        master.grad = grad if master.grad is None else master.grad.add_(grad)
    return found


def add_set_aside(stash: Stash) -> None:
    """Adds the gradients of earlier backward passes to those of this one.

    Args:
        stash: where they wait; empty afterwards.
    """
    for param, grad in stash.set_aside:
        param.grad = grad if param.grad is None else param.grad.add_(grad)
    stash.set_aside = []


def direct_params(optimizer: torch.optim.Optimizer, stash: Stash) -> list[torch.Tensor]:
    """Returns the weights that the optimizer steps themselves, hence all but masters.

    Args:
        optimizer: whose groups hold them.
        stash: of the optimizer.
    """
    params = [param for group in optimizer.param_groups for param in group["params"]]
    if not stash.pairs:
        return params
    masters = {id(master) for _, master in stash.pairs}
    return [param for param in params if id(param) not in masters]


def _float(grad: torch.Tensor) -> torch.Tensor:
    grad = grad.detach().float()
    return grad.coalesce() if grad.is_sparse else grad


def _check_and_divide(grads: Iterable[torch.Tensor], scale: float) -> list[torch.Tensor]:
    # The kernel takes lists of one device and dtype; one call for each, and one number found for each device.
    alike: dict[tuple[torch.device, torch.dtype], list[torch.Tensor]] = defaultdict(list)
    for grad in grads:
        alike[grad.device, grad.dtype].append(grad._values() if grad.is_sparse else grad)
    # Looks at each element. Apex without its extension looks at the sum of each gradient, which may overflow where no
    # element has.
    found = {device: torch.zeros(1, device=device) for device, _ in alike}
    for (device, dtype), values in alike.items():
        # The kernel takes a float32 factor alone, which would cost float64 gradients their accuracy.
        factor = 1.0 if dtype is torch.float64 else 1.0 / scale
        torch._amp_foreach_non_finite_check_and_unscale_(values, found[device], torch.full((1,), factor, device=device))
        if dtype is torch.float64:
            torch._foreach_mul_(values, 1.0 / scale)
    return list(found.values())


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
        AmpError: `initialize` was not called, an argument did not go through it, the scale has fallen below 2^-127,
            or gradients wait that another scale was applied to.
    """
    # Order of the whole, as in handle.py of Apex: gradients of passes before are set aside, the caller
    # differentiates, and on leaving the new ones are unscaled, checked, added to the others; then the scale moves,
    # before optimizer.step.
    session = current("amp.scale_loss")
    if not session.enabled:
        yield loss
        return
    passed = _passed(optimizers)
    for optimizer, _ in passed:
        take_in(session, optimizer)
    scaler = _scaler(session, loss_id)
    if _needs_nothing(session, scaler):
        yield _at_least_float32(loss)
        _drop_cache(session)
        return
    scaled = _begin(passed, scaler, loss)
    try:
        yield scaled
    # Also of KeyboardInterrupt: whoever goes on after one has the gradients that there were.
    except BaseException:
        for _, stash in passed:
            put_back(stash)
        raise
    _drop_cache(session)
    # Arithmetic of the tool, to which the cast lists do not apply.
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
    # O0 and O3 with their own scale of 1: nothing to scale or unscale, and Apex takes the same way out.
    return not session.properties.master_weights and not scaler.dynamic and scaler.loss_scale == 1.0


def _at_least_float32(loss: torch.Tensor) -> torch.Tensor:
    return loss if loss.dtype is torch.float64 else loss.float()


def _begin(passed: Passed, scaler: LossScaler, loss: torch.Tensor) -> torch.Tensor:
    scaler.check("amp.scale_loss")
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
        # The tensors found stay in `scaler.found` with the delay, and count with the next pass of this loss.
        skip = False if delay_check else scaler.update(scaler.take_found())
    for _, stash in passed:
        add_set_aside(stash)
        stash.delayed_scale = None
    return skip


def _skip_next_step(passed: Passed, session: Session, scaler: LossScaler, loss_id: int) -> None:
    # All optimizers of this loss skip together, as in Apex; GradScaler decides optimizer by optimizer. The words are
    # Apex's own, which scripts look for in their logs.
    message = (
        f"Gradient overflow.  Skipping step, loss scaler {loss_id} reducing loss scale to {scaler.loss_scale}"
        if session.verbosity
        else ""
    )
    for _, stash in passed:
        stash.skip_message = message


def _drop_cache(session: Session) -> None:
    # Half copies of weights belong to one graph: a second backward pass through them would need it kept.
    if session.casts is not None:
        session.casts.mode.cache.clear()
