"""Bugs in batch norm."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from torch_ddp.planted.registry import (
    Port,
    mutation,
    of_all_ranks,
    with_modules,
)


def _norms(port: Port, change: Callable[[Any], None]) -> Port:
    return with_modules(port, nn.modules.batchnorm._BatchNorm, change)


def _decay(norm: Any, decay: float) -> None:
    # torch_ddp.like_tf keeps TensorFlow's decay beside torch's momentum.
    norm.momentum = norm.decay = decay


@mutation("batch norm", "normalisation epsilon", "act loss", needs="batch_norm", sized=True)
def another_epsilon_of_batch_norm(port: Port, size: float) -> Port:
    return _norms(port, lambda norm: setattr(norm, "eps", norm.eps * (1 + size)))


@mutation("batch norm", "batch_norm_momentum", "stat", needs="batch_norm")
def torchs_default_momentum(port: Port, size: float) -> Port:
    return _norms(port, lambda norm: _decay(norm, 0.1))


@mutation("batch norm", "batch_norm_momentum", "stat", needs="batch_norm", sized=True)
def another_decay_of_statistics(port: Port, size: float) -> Port:
    return _norms(port, lambda norm: _decay(norm, norm.momentum * (1 + size)))


@mutation("batch norm", "normalisation", "act loss", needs="batch_norm")
def batch_norm_in_evaluation_mode(port: Port, size: float) -> Port:
    def change(norm: Any) -> None:
        nn.Module.train(norm, False)
        norm.train = lambda mode=True: norm

    return _norms(port, change)


@mutation("batch norm", "statistics_frozen", "stat", needs="batch_norm")
def statistics_never_move(port: Port, size: float) -> Port:
    return _norms(port, lambda norm: _decay(norm, 0.0))


@mutation("batch norm", "statistics_of_another_tower", "stat", needs="batch_norm")
def statistics_of_the_last_rank(port: Port, size: float) -> Port:
    def loss(model: nn.Module, **inputs: Tensor) -> Any:
        returned = port.loss(model, **inputs)
        with torch.no_grad():
            for name, buffer in model.named_buffers():
                if name.endswith(("running_mean", "running_var")):
                    buffer.copy_(of_all_ranks(buffer)[-1])
        return returned

    return replace(port, loss=loss)


@mutation("batch norm", "batch_norm_variance", "stat", needs="batch_norm")
def the_other_variance_moves(port: Port, size: float) -> Port:
    def change(norm: Any) -> None:
        norm.fused = not norm.fused

    return _norms(port, change)


@mutation("batch norm", "batch_norm_momentum", "stat", needs="batch_norm")
def statistics_move_twice(port: Port, size: float) -> Port:
    def change(norm: Any) -> None:
        move = norm._move

        def twice(mean: Tensor, variance: Tensor) -> None:
            move(mean, variance)
            move(mean, variance)

        norm._move = twice

    return _norms(port, change)


@mutation("batch norm", "gamma_missing", "act loss", needs="batch_norm")
def gamma_is_not_applied(port: Port, size: float) -> Port:
    def change(norm: Any) -> None:
        norm.register_forward_hook(
            lambda m, args, out: (out - _spread(m.bias, out)) / _spread(m.weight, out).detach() + _spread(m.bias, out)
        )

    return _norms(port, change)


def _spread(channels: Tensor, over: Tensor) -> Tensor:
    return channels.reshape(1, -1, *[1] * (over.ndim - 2))
