"""Porting bugs that can be planted in a right port: what they are made of, and the table of them.

A mutation takes the port apart (a model's class, a loss, a way to make the optimizer) and returns it with one bug in it. Its
`size` is what the bug is off by where it has a size: 1 is the plain form, 1e-3 a thousandth of it. They run inside the torch
side, in the place of the port.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Port:
    """A port, taken apart.

    Attributes:
      model: makes the module.
      loss: ``loss(model, **inputs)``.
      optimizer: makes the optimizer of a module.
      home: the module that the port's own code stands in, by its name; "" where it is not known.
    """

    model: Callable[[], nn.Module]
    loss: Callable[..., Any]
    optimizer: Callable[[nn.Module], torch.optim.Optimizer]
    home: str = ""


class Mutation(NamedTuple):
    """A bug that can be planted.

    Fields:
      name: its identifier.
      family: what it concerns.
      plant: ``plant(port, size)`` returns the port with the bug.
      causes: the names of causes that say what it is.
      first: the quantities that it can show in first.
      needs: what a net, or its optimizer, must have for the bug to exist, e.g. "conv", "batch_norm", "relu", "momentum".
      sized: whether `size` says by how much it is off.
    """

    name: str
    family: str
    plant: Callable[[Port, float], Port]
    causes: tuple[str, ...]
    first: tuple[str, ...]
    needs: tuple[str, ...]
    sized: bool


MUTATIONS: dict[str, Mutation] = {}


def mutation(
    family: str, causes: str = "", first: str = "", needs: str = "", sized: bool = False
) -> Callable[[Callable[[Port, float], Port]], Callable[[Port, float], Port]]:
    """Registers a function as a mutation; lists are words."""

    def register(plant: Callable[[Port, float], Port]) -> Callable[[Port, float], Port]:
        name = plant.__name__
        if name in MUTATIONS:
            raise ValueError(f"mutation: expected a new name, got {name!r} again.")
        MUTATIONS[name] = Mutation(
            name, family, plant, tuple(causes.split()), tuple(first.split()), tuple(needs.split()), sized
        )
        return plant

    return register


def with_gradients(port: Port, change: Callable[[Tensor, nn.Parameter, str], Tensor]) -> Port:
    """Changes every local gradient as soon as it is there: ``change(gradient, parameter, name)``."""

    def model() -> nn.Module:
        made = port.model()
        parameter: Any
        for name, parameter in made.named_parameters():
            if not parameter.requires_grad:
                continue
            # On the tensor: runs before the gradient is accumulated, and so before DDP takes it into a bucket. Bound as
            # defaults, for a closure would see the last parameter of the loop only.
            parameter.register_hook(lambda gradient, p=parameter, n=name: change(gradient, p, n))
        return made

    return replace(port, model=model)


def with_loss(port: Port, change: Callable[[Tensor, nn.Module, dict[str, Tensor]], Tensor]) -> Port:
    """Changes the loss alone: ``change(loss, model, inputs)``."""

    def loss(model: nn.Module, **inputs: Tensor) -> Any:
        returned = port.loss(model, **inputs)
        value, outputs = returned if isinstance(returned, tuple) else (returned, {})
        return change(value, model, inputs), outputs

    return replace(port, loss=loss)


def with_function(port: Port, name: str, change: Callable[..., Tensor]) -> Port:
    """Puts ``change(plain, *arguments)`` in the place of a function of `torch.nn.functional` while the loss is computed."""
    return _with_attribute(port, F, name, change)


def with_own_function(port: Port, name: str, change: Callable[..., Tensor]) -> Port:
    """Puts ``change(plain, *arguments, **named)`` in the place of a function that the port's own module calls by `name`."""
    return _with_attribute(port, sys.modules[port.home], name, change)


def _with_attribute(port: Port, owner: Any, name: str, change: Callable[..., Tensor]) -> Port:
    def loss(model: nn.Module, **inputs: Tensor) -> Any:
        plain = getattr(owner, name)
        try:
            # Within the loss alone: the worker computes with the same functions outside of it.
            setattr(owner, name, lambda *arguments, **named: change(plain, *arguments, **named))
            return port.loss(model, **inputs)
        finally:
            setattr(owner, name, plain)

    return replace(port, loss=loss)


def with_inputs(port: Port, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> Port:
    """Changes what the rank is fed."""
    return replace(port, loss=lambda model, **inputs: port.loss(model, **change(inputs)))


def around_step(port: Port, before: Callable[[Any], Any], after: Callable[[Any, Any], None] | None = None) -> Port:
    """Runs ``before(optimizer)`` and ``after(optimizer, what before returned)`` around the optimizer's step."""

    def make(model: nn.Module) -> torch.optim.Optimizer:
        optimizer = port.optimizer(model)
        # Of this instance alone: others of its class stay right.
        step = optimizer.step

        def changed(closure: Any = None) -> Any:
            kept = before(optimizer)
            result = step()
            if after is not None:
                after(optimizer, kept)
            return result

        optimizer.step = changed  # type: ignore[method-assign]
        return optimizer

    return replace(port, optimizer=make)


def with_modules(port: Port, kind: Any, change: Callable[[Any], None], only_first: bool = False) -> Port:
    """Changes the modules of a kind once they are made: all of them, or the first; only those with all they can have."""

    def model() -> nn.Module:
        made = port.model()
        found = [
            module for module in made.modules() if isinstance(module, kind) and getattr(module, "bias", 0) is not None
        ]
        for module in found[:1] if only_first else found:
            change(module)
        return made

    return replace(port, model=model)


def ranks() -> tuple[int, int]:
    """Returns this rank and their number."""
    return dist.get_rank(), dist.get_world_size()


def of_all_ranks(value: Tensor) -> list[Tensor]:
    """Returns every rank's tensor; all of one shape."""
    pieces = [torch.empty_like(value) for _ in range(dist.get_world_size())]
    # A collective: every rank comes here in every step, whatever its own part in the bug.
    dist.all_gather(pieces, value.contiguous())
    return pieces


def parameters(optimizer: torch.optim.Optimizer) -> list[Any]:
    """Returns all parameters that have a gradient."""
    # By what has a gradient: frozen parameters, and those that a step did not reach, are left as they are.
    return [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]


def set_hyper(optimizer: torch.optim.Optimizer, **values: Any) -> None:
    """Overwrites hyper-parameters in every group."""
    for group in optimizer.param_groups:
        group.update(values)


def with_optimizer(port: Port, change: Callable[[torch.optim.Optimizer], None]) -> Port:
    """Changes the optimizer once it is made."""

    def make(model: nn.Module) -> torch.optim.Optimizer:
        optimizer = port.optimizer(model)
        change(optimizer)
        return optimizer

    return replace(port, optimizer=make)
