"""Loads named arrays into a model, all of them and into every parameter, and reads them back."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from torch_ddp.errors import TorchDdpError


def named_statistics(model: nn.Module) -> dict[str, Tensor]:
    """Returns the floating-point buffers by name: batch norm's running statistics and their like."""
    return {name: buffer for name, buffer in model.named_buffers() if buffer.is_floating_point()}


def load_weights(model: nn.Module, arrays: Mapping[str, np.ndarray]) -> None:
    """Copies named arrays into the model's parameters and statistics.

    Args:
      model: its parameters and floating-point buffers are overwritten, cast to their own dtypes.
      arrays: dict of ``state_dict`` name to array of that tensor's shape.

    Raises:
      TorchDdpError: an array is left over, a parameter or statistic is not filled, or a shape differs. Nothing is copied
        then.
    """
    targets: dict[str, Tensor] = {**dict(model.named_parameters()), **named_statistics(model)}
    unknown = sorted(set(arrays) - set(targets))
    unfilled = sorted(set(targets) - set(arrays))
    if unknown or unfilled:
        raise TorchDdpError(
            "load_weights: expected one array for every parameter and statistic, "
            f"got none for {unfilled or 'none missing'}, and left over {unknown or 'none'}. Complete the mapping."
        )
    for name, array in arrays.items():
        if tuple(targets[name].shape) != array.shape:
            raise TorchDdpError(
                f"load_weights: expected shape {tuple(targets[name].shape)} for {name!r}, got {array.shape}. "
                "Give its mapping the transform that fits."
            )
    with torch.no_grad():
        for name, array in arrays.items():
            targets[name].copy_(torch.from_numpy(np.array(array)))
