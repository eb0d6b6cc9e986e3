"""Gradients around a backward pass: set aside before it; unscaled, checked and summed after it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

import torch

from torch_ddp.amp.master_weights import make_masters
from torch_ddp.amp.stash import Stash


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
        if param.grad is not None:
            stash.set_aside.append((param, param.grad.clone()))
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
    fresh = [(master, _float(weight.grad)) for weight, master in stash.pairs if weight.grad is not None]
    for param in direct_params(optimizer, stash):
        if param.grad is not None and param.grad.is_sparse:
            param.grad = param.grad.coalesce()
    direct = [param.grad for param in direct_params(optimizer, stash) if param.grad is not None]
    found = _check_and_divide([*(grad for _, grad in fresh), *direct], scale)
    for master, grad in fresh:
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


def direct_params(optimizer: torch.optim.Optimizer, stash: Stash) -> Iterator[torch.Tensor]:
    """Yields the weights that the optimizer steps themselves, hence all but masters.

    Args:
        optimizer: whose groups hold them.
        stash: of the optimizer.
    """
    masters = {id(master) for _, master in stash.pairs}
    for group in optimizer.param_groups:
        yield from (param for param in group["params"] if id(param) not in masters)


def _float(grad: torch.Tensor) -> torch.Tensor:
    grad = grad.detach().float()
    return grad.coalesce() if grad.is_sparse else grad


def _check_and_divide(grads: Iterable[torch.Tensor], scale: float) -> list[torch.Tensor]:
    alike: dict[tuple[torch.device, torch.dtype], list[torch.Tensor]] = defaultdict(list)
    for grad in grads:
        alike[grad.device, grad.dtype].append(grad._values() if grad.is_sparse else grad)
    found = {device: torch.zeros(1, device=device) for device, _ in alike}
    for (device, dtype), values in alike.items():
        # The kernel takes a float32 factor alone, which would cost float64 gradients their accuracy.
        factor = 1.0 if dtype is torch.float64 else 1.0 / scale
        torch._amp_foreach_non_finite_check_and_unscale_(values, found[device], torch.full((1,), factor, device=device))
        if dtype is torch.float64:
            torch._foreach_mul_(values, 1.0 / scale)
    return list(found.values())
