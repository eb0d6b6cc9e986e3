"""A case's port, in another memory format, without oneDNN, or with the unfused batch norm of its tower."""

import importlib
import json
from pathlib import Path

import torch
from torch import nn

from torch_ddp.like_tf import BatchNorm1d, BatchNorm2d, Conv2d

VARIANT = json.loads((Path(__file__).parent / "variant.json").read_text())


def _load(spec):
    module, _, name = spec.partition(":")
    return getattr(importlib.import_module(module), name)


loss = _load(VARIANT["loss"])


def Model() -> nn.Module:
    """Makes the case's module."""
    torch.backends.mkldnn.enabled = VARIANT["mkldnn"]
    model = _load(VARIANT["model"])()
    if VARIANT["batch_norm"] == "unfused":
        _unfuse(model)
    if VARIANT["memory_format"] == "channels_last":
        model = model.to(memory_format=torch.channels_last)
        for module in model.modules():
            if isinstance(module, nn.Conv2d | Conv2d):
                module.register_forward_pre_hook(_channels_last)
    return model


def _channels_last(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(each.contiguous(memory_format=torch.channels_last) for each in inputs)


def _unfuse(model: nn.Module) -> None:
    for parent in list(model.modules()):
        for name, module in list(parent.named_children()):
            if isinstance(module, BatchNorm1d | BatchNorm2d):
                # What the unfused layer subtracts is rounded once, as a Python float.
                momentum = {0.01: 0.99, 0.001: 0.999}[round(module.momentum, 6)]
                plain = type(module)(module.num_features, module.eps, momentum, fused=False)
                setattr(parent, name, plain)
