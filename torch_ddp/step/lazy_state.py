"""Makes the state that an optimizer makes in its first step, so that it can be read and overwritten before that step."""

import contextlib
import copy
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.grad_mode import _unsafe_preserve_version_counter  # no public form
from torch.optim import Optimizer

from torch_ddp.step.optimizer import own_numbers

HOOK_TABLES = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")


class _FirstValues(dict[Any, Any]):
    """The state of one parameter, which remembers what was put into it first."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__()
        self.first: dict[Any, Any] = {}
        self.update(*arguments, **named)

    def __setitem__(self, name: Any, value: Any) -> None:
        self.first.setdefault(name, value.detach().clone() if isinstance(value, Tensor) else copy.copy(value))
        super().__setitem__(name, value)

    def setdefault(self, name: Any, default: Any = None) -> Any:
        if name not in self:
            self[name] = default
        return self[name]

    def update(self, *arguments: Any, **named: Any) -> None:
        for name, value in dict(*arguments, **named).items():
            self[name] = value


class _States(defaultdict[Any, Any]):
    """The state of all parameters."""

    def __init__(self) -> None:
        super().__init__(_FirstValues)

    def __setitem__(self, parameter: Any, state: Any) -> None:
        super().__setitem__(parameter, state if isinstance(state, _FirstValues) else _FirstValues(state))


def make_lazy_state(optimizer: Optimizer) -> None:
    """Gives an optimizer that has no state yet the one that it would make in its first step, before that step updates it.

    The step is tried with weights and gradients of zero, so that what is copied from either is zero too, and without the
    optimizer's hooks; weights, gradients and groups are then as they were. What a step puts into its state first is what it
    starts with. An optimizer that keeps no state, or does not take such a step, is left as it is.

    Args:
      optimizer: newly made; its state is filled.
    """
    if optimizer.state:
        return
    # A forward pass may have kept weights for its backward pass, which refuses others, and these are the same again then.
    with _unsafe_preserve_version_counter(_trained(optimizer)), _unchanged(optimizer):
        states = optimizer.state = _States()
        try:
            optimizer.step()
        except Exception:  # whatever a stranger's step raises on zeros says nothing of the port
            states = _States()
    optimizer.state = defaultdict(dict, {each: dict(state.first) for each, state in states.items() if state.first})


def _trained(optimizer: Optimizer) -> tuple[Tensor, ...]:
    return tuple(each for group in optimizer.param_groups for each in group["params"] if each.requires_grad)


@contextlib.contextmanager
def _unchanged(optimizer: Optimizer) -> Iterator[None]:
    parameters = _trained(optimizer)
    kept = [(each, each.detach().clone(), each.grad) for each in parameters]
    settings = [
        {name: copy.deepcopy(v) for name, v in group.items() if name != "params"} for group in optimizer.param_groups
    ]
    hooks = {name: getattr(optimizer, name) for name in HOOK_TABLES}
    numbers = own_numbers(optimizer)
    # Some optimizers draw noise in their step.
    random = torch.get_rng_state()
    for name, registered in hooks.items():
        setattr(optimizer, name, type(registered)())
    for each in parameters:
        # Zeros, so that what a first step copies of a weight or gradient is 0, and only the optimizer's own constants
        # are not.
        each.data.zero_()
        each.grad = torch.zeros_like(each)
    try:
        yield
    finally:
        for each, value, gradient in kept:
            each.data.copy_(value)
            each.grad = gradient
        for group, known in zip(optimizer.param_groups, settings, strict=True):
            # Counters that a step puts into the group, or moves there.
            for name in set(group) - {"params", *known}:
                del group[name]
            group.update(known)
        for name, registered in hooks.items():
            setattr(optimizer, name, registered)
        vars(optimizer).update(numbers)
        torch.set_rng_state(random)
