"""Finds parameters that a module holds where torch does not look: in plain lists, tuples and dicts."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

OF_TORCH = frozenset(vars(nn.Module()))


def unregistered(model: nn.Module) -> dict[str, Tensor]:
    """Returns dict of name, e.g. "blocks[0].weight", to parameter, of what `model.parameters()` leaves out."""
    known = {id(parameter) for parameter in model.parameters()}
    found: dict[str, Tensor] = {}
    for path, module in model.named_modules():
        for attribute, value in vars(module).items():
            if attribute in OF_TORCH or not isinstance(value, list | tuple | dict):
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
