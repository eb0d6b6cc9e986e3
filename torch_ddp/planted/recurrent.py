"""Bugs in how a recurrent net is carried over."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from torch_ddp.planted.registry import Port, mutation, with_modules


def _with_weights(port: Port, change: Callable[[nn.LSTM, list[Any]], list[Tensor]]) -> Port:
    # The parameters stay what they are; only what the layer computes with is changed, and gradients pass through.
    def replaced(module: nn.LSTM) -> None:
        def forward(x: Tensor) -> Any:
            weights = change(module, [getattr(module, name) for name in module._flat_weights_names])
            empty = x.new_zeros(module.num_layers, len(x), module.hidden_size)
            out, h, c = torch._VF.lstm(
                x, (empty, empty), weights, True, module.num_layers, 0.0, module.training, False, module.batch_first
            )
            return out, (h, c)

        module.forward = forward  # type: ignore[method-assign, assignment]

    return with_modules(port, nn.LSTM, replaced)


def _to_the_forget_gate(port: Port, amount: float) -> Port:
    def change(module: nn.LSTM, weights: list[Any]) -> list[Tensor]:
        h = module.hidden_size
        added = torch.zeros_like(weights[3])
        added[h : 2 * h] = amount
        return [*weights[:3], weights[3] + added]

    return _with_weights(port, change)


@mutation("recurrent", "forget_bias", "act loss", needs="lstm", sized=True)
def another_forget_bias(port: Port, size: float) -> Port:
    return _to_the_forget_gate(port, size)


@mutation("recurrent", "forget_bias", "act loss", needs="lstm")
def no_forget_bias(port: Port, size: float) -> Port:
    return _to_the_forget_gate(port, -1.0)


@mutation("recurrent", "gate_order", "act loss", needs="lstm")
def gates_in_the_order_of_tensorflow(port: Port, size: float) -> Port:
    def change(module: nn.LSTM, weights: list[Any]) -> list[Tensor]:
        first, second, third, fourth = torch.arange(4 * module.hidden_size).chunk(4)
        order = torch.cat([first, third, second, fourth])
        return [weight[order] for weight in weights]

    return _with_weights(port, change)


@mutation("recurrent", "trained_twice", "clip slot var", needs="lstm")
def both_biases_train(port: Port, size: float) -> Port:
    return with_modules(port, nn.LSTM, lambda module: module.bias_hh_l0.requires_grad_(True))


@mutation("recurrent", "reversed_input", "act loss", needs="lstm")
def sequences_read_backwards(port: Port, size: float) -> Port:
    def change(module: nn.LSTM) -> None:
        module.register_forward_pre_hook(lambda m, args: (args[0].flip(1),))

    return with_modules(port, nn.LSTM, change)


@mutation("recurrent", "rolled_input", "act loss", needs="lstm")
def sequences_a_step_late(port: Port, size: float) -> Port:
    def change(module: nn.Embedding) -> None:
        module.register_forward_pre_hook(lambda m, args: (args[0].roll(1, 1),))

    return with_modules(port, nn.Embedding, change)
