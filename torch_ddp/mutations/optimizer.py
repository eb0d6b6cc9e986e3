"""Bugs in the update."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from torch_ddp.mutations.registry import Port, around_step, mutation, parameters, set_hyper, with_optimizer


@mutation("optimizer", "learning_rate", "state var", sized=True)
def another_learning_rate(port: Port, size: float) -> Port:
    def before(optimizer: Any) -> list[float]:
        rates = [group["lr"] for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            # And back after the step: a schedule that multiplies the rate it finds would compound the bug.
            group["lr"] *= 1 + size
        return rates

    def after(optimizer: Any, rates: list[float]) -> None:
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate

    return around_step(port, before, after)


@mutation("optimizer", "weight_decay", "slot var", sized=True)
def weights_decay_in_the_optimizer(port: Port, size: float) -> Port:
    def before(optimizer: Any) -> None:
        for p in parameters(optimizer):
            # In the gradient, and so in every slot: what torch's weight_decay does.
            p.grad = p.grad + 1e-2 * size * p.detach()

    return around_step(port, before)


@mutation("optimizer", "weight_decay", "var", sized=True)
def weights_decay_beside_the_update(port: Port, size: float) -> Port:
    def before(optimizer: Any) -> None:
        with torch.no_grad():
            for group in optimizer.param_groups:
                for p in group["params"]:
                    # Beside the update, before it: AdamW's rule, of which no slot knows.
                    p.mul_(1 - group["lr"] * 1e-2 * size)

    return around_step(port, before)


@mutation("optimizer", "clipping", "slot var")
def clipped_by_global_norm(port: Port, size: float) -> Port:
    limits: list[float] = []

    def before(optimizer: Any) -> None:
        found = parameters(optimizer)
        norm = float(torch.stack([p.grad.norm() for p in found]).norm())
        if not limits:
            # Half of the first norm, so that it clips in every case, whatever the size of its gradients.
            limits.append(0.5 * norm)
        for p in found:
            p.grad = p.grad * min(1.0, limits[0] / max(norm, 1e-30))

    return around_step(port, before)


@mutation("optimizer", "clipping", "slot var")
def clipped_by_value(port: Port, size: float) -> Port:
    def before(optimizer: Any) -> None:
        for p in parameters(optimizer):
            # Of the largest element: some are clipped, and not all.
            p.grad = p.grad.clamp(-0.3 * float(p.grad.abs().max()), 0.3 * float(p.grad.abs().max()))

    return around_step(port, before)


@mutation("optimizer", "not_updated", "slot var")
def a_parameter_nobody_gave_the_optimizer(port: Port, size: float) -> Port:
    def change(optimizer: torch.optim.Optimizer) -> None:
        # As where a layer is made after the optimizer: it computes and never learns.
        optimizer.param_groups[0]["params"] = optimizer.param_groups[0]["params"][1:]

    return with_optimizer(port, change)


@mutation("optimizer", "stale_gradient", "tower_grad")
def gradients_are_never_cleared(port: Port, size: float) -> Port:
    def change(optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad = lambda set_to_none=True: None  # type: ignore[method-assign]

    return with_optimizer(port, change)


@mutation("optimizer", "sign", "slot var")
def uphill(port: Port, size: float) -> Port:
    def before(optimizer: Any) -> None:
        for p in parameters(optimizer):
            p.grad = -p.grad

    return around_step(port, before)


@mutation("optimizer", "momentum", "slot", needs="momentum", sized=True)
def another_momentum(port: Port, size: float) -> Port:
    # From the 0.9 of the cases that have one, to 0.5 at size 1.
    return with_optimizer(port, lambda optimizer: set_hyper(optimizer, momentum=0.9 - 0.4 * size))


@mutation("optimizer", "nesterov", "var", needs="momentum")
def nesterov_nobody_asked_for(port: Port, size: float) -> Port:
    return with_optimizer(port, lambda optimizer: set_hyper(optimizer, use_nesterov=True))


@mutation("optimizer", "momentum", "slot", needs="momentum")
def dampened_momentum(port: Port, size: float) -> Port:
    def before(optimizer: Any) -> None:
        for p in parameters(optimizer):
            # Dampening 0.9, without the exception that torch makes for the first step.
            p.grad = p.grad * 0.1

    return around_step(port, before)


@mutation("optimizer", "adam_beta", "slot", needs="adam", sized=True)
def another_beta1(port: Port, size: float) -> Port:
    return with_optimizer(port, lambda optimizer: set_hyper(optimizer, beta1=0.9 - 0.4 * size))


@mutation("optimizer", "adam_beta", "slot", needs="adam", sized=True)
def another_beta2(port: Port, size: float) -> Port:
    return with_optimizer(port, lambda optimizer: set_hyper(optimizer, beta2=0.999 - 0.009 * size))


@mutation("optimizer", "adam_epsilon adam_epsilon_placement", "var", needs="adam")
def adam_of_torch(port: Port, size: float) -> Port:
    def make(model: nn.Module) -> torch.optim.Optimizer:
        group = port.optimizer(model).param_groups[0]
        return torch.optim.Adam(
            model.parameters(), lr=group["lr"], betas=(group["beta1"], group["beta2"]), eps=group["epsilon"]
        )

    return replace(port, optimizer=make)


@mutation("optimizer", "adam_epsilon", "var", needs="adam", sized=True)
def another_epsilon_of_adam(port: Port, size: float) -> Port:
    def change(optimizer: torch.optim.Optimizer) -> None:
        set_hyper(optimizer, epsilon=optimizer.param_groups[0]["epsilon"] * (1 + 9 * size))

    return with_optimizer(port, change)


@mutation("optimizer", "bias_correction", "var", needs="adam")
def adam_without_bias_correction(port: Port, size: float) -> Port:
    def before(optimizer: Any) -> list[tuple[float, float]]:
        powers = [(group["beta1_power"], group["beta2_power"]) for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            # 1 - 0 on both sides of alpha; afterwards the powers are what they would have been.
            group["beta1_power"] = group["beta2_power"] = 0.0
        return powers

    def after(optimizer: Any, powers: list[tuple[float, float]]) -> None:
        for group, (first, second) in zip(optimizer.param_groups, powers, strict=True):
            group["beta1_power"], group["beta2_power"] = first * group["beta1"], second * group["beta2"]

    return around_step(port, before, after)


@mutation("optimizer", "slot_reset", "slot", needs="momentum")
def slots_forgotten_in_every_step(port: Port, size: float) -> Port:
    def before(optimizer: Any) -> None:
        for state in optimizer.state.values():
            for value in state.values():
                if isinstance(value, Tensor):
                    # What an optimizer that is made inside of the training loop amounts to.
                    value.zero_()

    return around_step(port, before)


@mutation("optimizer", "learning_rate", "state var", sized=True)
def biases_learn_at_another_rate(port: Port, size: float) -> Port:
    def before(optimizer: Any) -> list[tuple[Tensor, Tensor]]:
        # One axis: biases, and the gammas and betas of norms.
        return [(p, p.detach().clone()) for p in parameters(optimizer) if p.ndim == 1]

    def after(optimizer: Any, kept: list[tuple[Tensor, Tensor]]) -> None:
        with torch.no_grad():
            for p, was in kept:
                # The update again, times size: whatever the optimizer, its rate is 1 + size as large.
                p.add_(size * (p - was))

    return around_step(port, before, after)


@mutation("optimizer", "reduced_precision", "var")
def weights_kept_in_bfloat16(port: Port, size: float) -> Port:
    def after(optimizer: Any, kept: None) -> None:
        with torch.no_grad():
            for p in parameters(optimizer):
                # 8 bits: a step smaller than 2^-9 of a weight is lost.
                p.copy_(p.bfloat16().to(p.dtype))

    return around_step(port, lambda optimizer: None, after)


@mutation("optimizer", "slot_initial_value", "slot", needs="adagrad")
def accumulators_start_elsewhere(port: Port, size: float) -> Port:
    def change(optimizer: torch.optim.Optimizer) -> None:
        for state in optimizer.state.values():
            # torch's Adagrad begins at 0, TensorFlow's at 0.1.
            state["accumulator"].zero_()

    return with_optimizer(port, change)


@mutation("optimizer", "slot_initial_value", "slot", needs="rmsprop")
def rmsprop_of_torch(port: Port, size: float) -> Port:
    def make(model: nn.Module) -> torch.optim.Optimizer:
        group = port.optimizer(model).param_groups[0]
        return torch.optim.RMSprop(model.parameters(), lr=group["lr"], alpha=group["decay"], eps=group["epsilon"])

    return replace(port, optimizer=make)


@mutation("optimizer", "rmsprop_epsilon", "slot", needs="rmsprop")
def epsilon_outside_the_root_of_rmsprop(port: Port, size: float) -> Port:
    # lr g / sqrt(ms + eps) becomes lr g / (sqrt(ms) + eps), as torch has it; momentum is 0.
    def before(optimizer: Any) -> list[tuple[Any, Tensor]]:
        return [(p, p.detach().clone()) for p in parameters(optimizer)]

    def after(optimizer: Any, kept: list[tuple[Any, Tensor]]) -> None:
        epsilon = optimizer.param_groups[0]["epsilon"]
        with torch.no_grad():
            for p, was in kept:
                square, update = (optimizer.state[p][slot] for slot in ("rms", "momentum"))
                update.mul_((square + epsilon).sqrt() / (square.sqrt() + epsilon))
                p.copy_(was - update)

    return around_step(port, before, after)
