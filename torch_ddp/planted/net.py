"""Bugs in the net."""

from torch import nn
from torch.nn import functional as F

from torch_ddp.planted.registry import (
    Port,
    mutation,
    with_function,
    with_gradients,
    with_modules,
)


@mutation("net", "rectifier", "act loss", needs="relu", sized=True)
def leaky_rectifier(port: Port, size: float) -> Port:
    return with_function(port, "relu", lambda plain, x: F.leaky_relu(x, 0.01 * size))


@mutation("net", "dropout_active", "act loss", needs="relu")
def dropout_nobody_asked_for(port: Port, size: float) -> Port:
    return with_function(port, "relu", lambda plain, x: F.dropout(plain(x), 0.25))


@mutation("net", "activation_function", "act loss", needs="relu")
def smooth_rectifier(port: Port, size: float) -> Port:
    return with_function(port, "relu", lambda plain, x: F.gelu(x))


@mutation("net", "border", "act loss", needs="conv")
def reflecting_border(port: Port, size: float) -> Port:
    def change(conv: nn.Conv2d) -> None:
        conv.padding_mode = "reflect"

    return with_modules(port, nn.Conv2d, change, only_first=True)


@mutation("net", "", "act loss", needs="conv")
def padding_on_one_side(port: Port, size: float) -> Port:
    def change(conv: nn.Conv2d) -> None:
        assert isinstance(conv.padding, tuple)
        top, left = conv.padding
        conv.register_forward_pre_hook(lambda module, args: (F.pad(args[0], (left - 1, left + 1, top - 1, top + 1)),))
        conv.padding = (0, 0)

    return with_modules(port, nn.Conv2d, change, only_first=True)


@mutation("net", "pooling", "act loss", needs="conv")
def average_for_the_largest(port: Port, size: float) -> Port:
    return with_function(port, "max_pool2d", lambda plain, x, kernel: F.avg_pool2d(x, kernel))


@mutation("net", "bias_missing", "act loss", sized=True)
def a_bias_is_not_added(port: Port, size: float) -> Port:
    def change(module: nn.Module) -> None:
        module.register_forward_hook(lambda m, args, out: out - size * m.bias)

    return with_modules(port, nn.Linear, change, only_first=True)


@mutation("net", "reduced_precision", "act loss tower_grad grad")
def a_layer_in_bfloat16(port: Port, size: float) -> Port:
    def change(module: nn.Module) -> None:
        module.register_forward_hook(lambda m, args, out: out.bfloat16().to(out.dtype))

    return with_modules(port, nn.Linear, change, only_first=True)


@mutation("net", "reduced_precision", "tower_grad grad")
def gradients_travel_in_float16(port: Port, size: float) -> Port:
    return with_gradients(port, lambda gradient, p, n: gradient.half().to(gradient.dtype))
