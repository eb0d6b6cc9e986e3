"""An optimizer whose step can be skipped, keeps out of the casts and writes masters back to half weights."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from types import MethodType
from typing import Any

import torch

from torch_ddp.amp.errors import AmpError
from torch_ddp.amp.optimizer_state import ATTRIBUTE, Stash, make_masters, masters_to_weights, stash_of
from torch_ddp.amp.session import Casts, current_casts, disable_casts


def check_fresh(optimizer: torch.optim.Optimizer) -> None:
    """Refuses an optimizer that has been through `initialize`.

    Args:
        optimizer: as the user gave it.

    Raises:
        AmpError: it has.
    """
    if hasattr(optimizer, ATTRIBUTE):
        raise AmpError(
            f"amp.initialize: expected a fresh {type(optimizer).__name__}, got one that was initialized before. "
            "Call amp.initialize once with all models and optimizers."
        )


def patch_optimizer(optimizer: torch.optim.Optimizer, keeps_masters: bool) -> None:
    """Puts amp around `step` and `zero_grad` of an optimizer, in place.

    Args:
        optimizer: not patched before; a wrapper with the methods of an optimizer will do.
        keeps_masters: whether half weights get float32 masters.
    """
    stash = Stash(keeps_masters)
    setattr(optimizer, ATTRIBUTE, stash)
    # Bound methods, because learning rate schedulers take `step.__func__`.
    step, zero_grad = optimizer.step, optimizer.zero_grad
    replacements = {"step": _step(stash, step), "zero_grad": _zero_grad(stash, zero_grad)}
    for name, function in replacements.items():
        setattr(optimizer, name, MethodType(function, optimizer))
    # Loaded into half weights, the state would be rounded to half.
    if isinstance(optimizer, torch.optim.Optimizer):
        optimizer.register_load_state_dict_pre_hook(_before_loading)
    else:
        _wrap_load_state_dict(optimizer)


def step_was_skipped(optimizer: torch.optim.Optimizer) -> bool:
    """Returns whether the optimizer's last call of `step` was skipped because of an overflow.

    Args:
        optimizer: one that `initialize` returned; with `enabled=False` the answer is False.

    Raises:
        AmpError: the optimizer never went through `initialize`.
    """
    from torch_ddp.amp.session import current

    if not current("amp.step_was_skipped").enabled:
        return False
    return stash_of(optimizer, "amp.step_was_skipped").skipped


def _before_loading(optimizer: torch.optim.Optimizer, state_dict: dict[str, Any]) -> None:
    make_masters(optimizer, stash_of(optimizer, "load_state_dict"))


def _wrap_load_state_dict(optimizer: Any) -> None:
    load = optimizer.load_state_dict

    def load_state_dict(optimizer: Any, state_dict: dict[str, Any]) -> Any:
        _before_loading(optimizer, state_dict)
        return load(state_dict)

    optimizer.load_state_dict = MethodType(load_state_dict, optimizer)


def _step(stash: Stash, step: Callable[..., Any]) -> Callable[..., Any]:
    # A schedule made before looks for its mark on the step, and for _opt_called; it warns even of a skipped first step.
    @wraps(step)
    def amp_step(optimizer: torch.optim.Optimizer, closure: Any = None, **kwargs: Any) -> Any:
        optimizer._opt_called = True  # type: ignore[attr-defined]
        # Those that are on now, and not those of the call that this optimizer was given to: another call replaced them.
        casts = current_casts()
        if closure is not None:
            # With masters Apex refuses closures, and so does `_checked`; at O1 it runs in them with casts.
            closure = _checked(closure, optimizer, stash, casts)
            kwargs["closure"] = closure
        stash.skipped = stash.skip_message is not None
        if stash.skipped:
            _skip(stash)
            return None
        # Apex wraps step in disable_casts as well: an optimizer's own products are no part of the model.
        with disable_casts():
            result = step(**kwargs)
            masters_to_weights(stash)
        _drop_master_grads(stash)
        if casts is not None:
            casts.mode.cache.clear()
        return result

    return amp_step


def _skip(stash: Stash) -> None:
    if stash.skip_message:
        print(stash.skip_message)
    stash.skip_message = None
    _drop_master_grads(stash)


def _drop_master_grads(stash: Stash) -> None:
    for _, master in stash.pairs:
        master.grad = None


def _checked(
    closure: Callable[[], Any], optimizer: torch.optim.Optimizer, stash: Stash, casts: Casts | None
) -> Callable[[], Any]:
    who = f"{type(optimizer).__name__}.step"
    if stash.keeps_masters:
        raise AmpError(
            f"{who}: expected no closure with master weights, got one. "
            "Compute loss and gradients before, and call step()."
        )

    def with_casts() -> Any:
        with casts.resumed() if casts is not None else nullcontext():
            result = closure()
        if stash.skip_message is not None:
            raise AmpError(
                f"{who}: expected finite gradients inside the closure, got an overflow, when the step can no longer be "
                "skipped. Call backward before step(), without a closure."
            )
        return result

    return with_casts


def _zero_grad(stash: Stash, zero_grad: Callable[..., None]) -> Callable[..., None]:
    def amp_zero_grad(optimizer: torch.optim.Optimizer, set_to_none: bool | None = None) -> None:
        # The optimizer clears what it holds, masters among them; the half weights it does not know are cleared below.
        # Apex's zero_grad takes no `set_to_none` and raises a TypeError at this call. Out of the casts, which would look at
        # every gradient that is taken away.
        with disable_casts():
            # Its own default where none is asked for.
            zero_grad() if set_to_none is None else zero_grad(set_to_none)
            stash.delayed_scale = None
            for weight, master in stash.pairs:
                master.grad = None
                if set_to_none is not False:
                    weight.grad = None
                elif weight.grad is not None:
                    weight.grad = weight.grad.detach().zero_()

    return amp_zero_grad
