"""What a model holds by name: loads named arrays into it, reads them back, and finds what torch overlooks."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from torch_ddp.errors import TorchDdpError

# What every module has, its tables of parameters and children among them; the rest of `vars` is the port's own.
ATTRIBUTES_OF_TORCH = frozenset(vars(nn.Module()))


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
    # After all checks: a refused state leaves the model whole.
    with torch.no_grad():
        for name, array in arrays.items():
            targets[name].copy_(torch.from_numpy(np.array(array)))


def unregistered(model: nn.Module) -> dict[str, Tensor]:
    """Returns dict of name, e.g. "blocks[0].weight", to parameter, of what `model.parameters()` leaves out.

    Torch looks for parameters and modules in a module's attributes, and not in plain lists, tuples and dicts there.
    """
    # By identity: a parameter that is registered elsewhere too is trained, wherever else it is held.
    known = {id(parameter) for parameter in model.parameters()}
    found: dict[str, Tensor] = {}
    for path, module in model.named_modules():
        for attribute, value in vars(module).items():
            if attribute in ATTRIBUTES_OF_TORCH or not isinstance(value, list | tuple | dict):
                continue
            for name, parameter in _held(f"{path}.{attribute}".lstrip("."), value):
                if id(parameter) not in known:
                    found.setdefault(name, parameter)
    return found


def _held(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, nn.Parameter):
        yield name, value
    elif isinstance(value, nn.Module):
        yield from ((f"{name}.{each}", parameter) for each, parameter in value.named_parameters())
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _held(f"{name}[{key!r}]", each)
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):
            yield from _held(f"{name}[{number}]", each)
