"""Makes models half precision while their batch norms stay float32."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from torch_ddp.amp.model import cast_weights
from torch_ddp.errors import TorchDdpError


def convert_module(module: nn.Module, dtype: torch.dtype) -> None:
    """Casts a module's own floating point weights, gradients and buffers in place; its children stay.

    Args:
        module: whose parameters stay the same objects.
        dtype: to cast to.

    Counterpart: apex.fp16_utils.convert_module
    """
    module._apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor, recurse=False)  # type: ignore[no-untyped-call]


def convert_network(network: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Casts a model in place, batch norms with weights excepted, and returns it.

    Other normalisations are cast, batch norms without weights among them, as in Apex.

    Args:
        network: whose parameters stay the same objects.
        dtype: to cast to.

    Counterpart: apex.fp16_utils.convert_network
    """
    cast_weights(network, dtype, keep_batchnorm_fp32=True)
    return network


def BN_convert_float(module: nn.Module) -> nn.Module:
    """Casts batch norms with weights back to float32, in place, and returns the model.

    Args:
        module: a model, or a batch norm itself.

    Counterpart: apex.fp16_utils.BN_convert_float
    """
    for one in module.modules():
        if isinstance(one, _BatchNorm) and one.affine:
            one.float()
    return module


def network_to_half(network: nn.Module) -> nn.Sequential:
    """Casts a model in place and returns it behind a layer that casts its input.

    Args:
        network: cast to float16, batch norms with weights excepted.

    Returns:
        Layers `0`, the cast, and `1`, the model; the names in its state dict begin with ``1.``.

    Counterpart: apex.fp16_utils.network_to_half
    """
    # half() first and batch norms back: `network_to_half` of Apex does so, and half rounds their weights on the way.
    return nn.Sequential(tofp16(), BN_convert_float(network.half()))


class tofp16(nn.Module):
    """Casts a tensor to float16, as a layer.

    Counterpart: apex.fp16_utils.tofp16
    """

    def forward(self, input: Tensor) -> Tensor:
        """Returns the tensor in float16."""
        return input.half()


class FP16Model(nn.Module):
    """Holds a model in float16, batch norms with weights excepted, and casts the tensors it is called with.

    Args:
        network: cast in place; `network` of the result.

    Counterpart: apex.fp16_utils.FP16Model
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = convert_network(network, torch.half)

    def forward(self, *inputs: Tensor) -> Any:
        """Calls the model with the tensors in float16."""
        return self.network(*(one.half() for one in inputs))


class Fp16Error(TorchDdpError):
    """Says what is wrong with a call of `torch_ddp.fp16_utils`."""
