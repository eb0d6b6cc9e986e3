"""Bugs of layers, batch norm and recurrent layers, to plant in right ports."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from torch_ddp.mutations.registry import (
    Port,
    mutation,
    of_all_ranks,
    with_function,
    with_gradients,
    with_modules,
    with_own_function,
)


@mutation("net", "rectifier activation_function", "act loss", needs="relu", sized=True)
def leaky_rectifier(port: Port, size: float) -> Port:
    # torch's own default slope at size 1.
    return with_function(port, "relu", lambda plain, x, inplace=False: F.leaky_relu(x, 0.01 * size))


@mutation("net", "rectifier activation_function", "act loss", needs="relu")
def the_rectifier_is_missing(port: Port, size: float) -> Port:
    return with_function(port, "relu", lambda plain, x, inplace=False: x)


@mutation("net", "dropout_active", "act loss", needs="relu")
def dropout_nobody_asked_for(port: Port, size: float) -> Port:
    return with_function(port, "relu", lambda plain, x, inplace=False: F.dropout(plain(x), 0.25))


@mutation("net", "activation_function", "act loss", needs="relu")
def smooth_rectifier(port: Port, size: float) -> Port:
    return with_function(port, "relu", lambda plain, x, inplace=False: F.gelu(x))


@mutation("net", "border", "act loss", needs="padded_conv")
def reflecting_border(port: Port, size: float) -> Port:
    def change(conv: nn.Conv2d) -> None:
        conv.padding_mode = "reflect"

    return with_modules(port, nn.Conv2d, change, only_first=True)


@mutation("net", "shifted_image padding", "act loss", needs="padded_conv")
def padding_on_one_side(port: Port, size: float) -> Port:
    def change(conv: nn.Conv2d) -> None:
        assert isinstance(conv.padding, tuple)
        # Padded by hand, one less before and one more after: the shape stays, the image moves by one.
        top, left = conv.padding
        conv.register_forward_pre_hook(lambda module, args: (F.pad(args[0], (left - 1, left + 1, top - 1, top + 1)),))
        conv.padding = (0, 0)

    return with_modules(port, nn.Conv2d, change, only_first=True)


@mutation("net", "pooling", "act loss", needs="max_pool")
def average_for_the_largest(port: Port, size: float) -> Port:
    return with_function(port, "max_pool2d", lambda plain, x, kernel: F.avg_pool2d(x, kernel))


@mutation("net", "bias_missing", "act loss", sized=True)
def a_bias_is_not_added(port: Port, size: float) -> Port:
    def change(module: nn.Module) -> None:
        # Taken off again behind the layer, so that the parameter stays and has a gradient, of 0 at size 1.
        module.register_forward_hook(lambda m, args, out: out - size * m.bias)

    return with_modules(port, nn.Linear, change, only_first=True)


@mutation("net", "reduced_precision", "act loss tower_grad grad")
def a_layer_in_bfloat16(port: Port, size: float) -> Port:
    def change(module: nn.Module) -> None:
        # Rounded once and widened again: all that follows is computed in the dtype of the run.
        module.register_forward_hook(lambda m, args, out: out.bfloat16().to(out.dtype))

    return with_modules(port, nn.Linear, change, only_first=True)


@mutation("net", "reduced_precision", "tower_grad grad")
def gradients_travel_in_float16(port: Port, size: float) -> Port:
    return with_gradients(port, lambda gradient, p, n: gradient.half().to(gradient.dtype))


@mutation("net", "response_normalisation", "act loss", needs="lrn", sized=True)
def another_alpha_of_lrn(port: Port, size: float) -> Port:
    def change(plain: Any, x: Tensor, **named: Any) -> Any:
        return plain(x, **{**named, "alpha": named["alpha"] * (1 + size)})

    return with_own_function(port, "local_response_normalization", change)


@mutation("net", "response_normalisation", "act loss", needs="lrn")
def the_response_normalisation_of_torch(port: Port, size: float) -> Port:
    def change(plain: Any, x: Tensor, **named: Any) -> Tensor:
        width = 2 * named["depth_radius"] + 1
        # torch divides alpha by the width, TensorFlow does not: the same numbers are another norm.
        return F.local_response_norm(x, width, named["alpha"], named["beta"], named["bias"])

    return with_own_function(port, "local_response_normalization", change)


@mutation("net", "response_normalisation", "act loss", needs="lrn")
def responses_normalised_over_three_channels(port: Port, size: float) -> Port:
    def change(plain: Any, x: Tensor, **named: Any) -> Any:
        return plain(x, **{**named, "depth_radius": 1})

    return with_own_function(port, "local_response_normalization", change)


@mutation("net", "activation_factor", "act loss", needs="embedding", sized=True)
def embeddings_scaled(port: Port, size: float) -> Port:
    def change(module: nn.Module) -> None:
        module.register_forward_hook(lambda m, args, out: out * (1 + size))

    return with_modules(port, nn.Embedding, change)


@mutation("net", "rows_without_gradient", "tower_grad", needs="embedding")
def the_first_symbol_pads(port: Port, size: float) -> Port:
    def change(module: nn.Embedding) -> None:
        module.padding_idx = 0

    return with_modules(port, nn.Embedding, change)


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
        # Or model.train() of the next step would undo it.
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
                    # After the forward pass, on every rank: DDP broadcasts rank 0's at the next one, which are the last
                    # rank's by then.
                    buffer.copy_(of_all_ranks(buffer)[-1])
        return returned

    return replace(port, loss=loss)


@mutation("batch norm", "batch_norm_variance", "stat", needs="batch_norm")
def the_other_variance_moves(port: Port, size: float) -> Port:
    def change(norm: Any) -> None:
        # N - 1 of the fused kernel for N, or the other way round: only the moving variance knows.
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
    # [1, channels, 1, ...], as torch lays images out.
    return channels.reshape(1, -1, *[1] * (over.ndim - 2))


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
        # torch's gates are i, f, g, o: the second quarter of bias_hh.
        added[h : 2 * h] = amount
        return [*weights[:3], weights[3] + added]

    return _with_weights(port, change)


# Of size 1 it is the constant that torch keeps in the second bias, once more: a mapping of the bias alone makes the layer
# right again, and what the port itself starts with is what differs.
@mutation("recurrent", "forget_bias own_value", "act loss var", needs="lstm", sized=True)
def another_forget_bias(port: Port, size: float) -> Port:
    return _to_the_forget_gate(port, size)


@mutation("recurrent", "forget_bias", "act loss", needs="lstm")
def no_forget_bias(port: Port, size: float) -> Port:
    return _to_the_forget_gate(port, -1.0)


@mutation("recurrent", "gate_order", "act loss", needs="lstm")
def gates_in_the_order_of_tensorflow(port: Port, size: float) -> Port:
    def change(module: nn.LSTM, weights: list[Any]) -> list[Tensor]:
        first, second, third, fourth = torch.arange(4 * module.hidden_size).chunk(4)
        # i, g, f, o: TensorFlow's order, in which g is called j.
        order = torch.cat([first, third, second, fourth])
        return [weight[order] for weight in weights]

    return _with_weights(port, change)


@mutation("recurrent", "trained_twice", "clip slot var", needs="lstm")
def both_biases_train(port: Port, size: float) -> Port:
    # It is frozen in a right port: TensorFlow's cell has one bias, and torch's two add up.
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
