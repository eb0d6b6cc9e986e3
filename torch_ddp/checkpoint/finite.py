"""Stops a training whose numbers are no longer finite, before anything is saved."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from torch_ddp.errors import NonFiniteError


def check_finite(tensors: Iterable[tuple[str, Tensor | None]], when: str) -> None:
    """Checks that tensors hold neither an infinity nor a NaN.

    One number travels from the device, whatever the count of tensors.

    Args:
      tensors: (name, tensor of any shape), e.g. a model's ``named_parameters()``; None and integers pass.
      when: for the message, e.g. "at update 7".

    Raises:
      NonFiniteError: one does; the message names the first and counts its elements.
    """
    floating = floating_of(tensors)
    # A finite sum is one of finite numbers: only where it is not is each tensor looked at.
    if not floating or sum_of(floating).isfinite():
        return
    for name, tensor in floating:
        values = _values(tensor)
        if count := int((~values.isfinite()).sum()):
            raise NonFiniteError(
                f"train: expected finite numbers {when}, got {count} of {values.numel()} "
                f"infinite or NaN in {name}. Nothing was saved since. Lower the learning rate, or look at the batch."
            )


def floating_of(tensors: Iterable[tuple[str, Tensor | None]]) -> list[tuple[str, Tensor]]:
    """Returns the named tensors of floating-point numbers, without what is None."""
    return [(name, tensor) for name, tensor in tensors if tensor is not None and tensor.is_floating_point()]


def sum_of(floating: list[tuple[str, Tensor]]) -> Tensor:
    """Returns the sum of all elements, shape [], on the device of the last tensor, from which it has not travelled yet.

    It is not finite where an element is not, and may be so where all are: a sum of large numbers overflows.

    Args:
      floating: (name, tensor of floating-point numbers of any shape), at least one.
    """
    device = floating[-1][1].device
    # Half precision would overflow at once; of other types the sum has the elements' own.
    sums = [_values(tensor).sum(dtype=_at_least_float32(tensor.dtype)) for _, tensor in floating]
    if all(each.device == device and each.dtype is torch.float32 for each in sums):
        return torch.stack(sums).sum()
    # In double: a float64 number beyond float32's range is finite.
    return torch.stack([each.to(device, torch.float64) for each in sums]).sum()


def _at_least_float32(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype.itemsize < torch.float32.itemsize else dtype


def check_finite_parts(parts: Mapping[str, Any], step: int) -> None:
    """Checks the weights, moving statistics and optimizer state of what a checkpoint is to hold.

    Buffers may hold infinities, as masks of attention do, and no NaN.

    Args:
      parts: dict of name to model, optimizer, or anything else, which is not looked into.
      step: number of updates made.

    Raises:
      NonFiniteError: a weight or slot is infinite or NaN, or a buffer is NaN.
    """
    check_finite(_tensors(parts), f"to save after update {step}")


def _values(tensor: Tensor) -> Tensor:
    detached = tensor.detach()
    return detached.coalesce().values() if detached.is_sparse else detached


def _tensors(parts: Mapping[str, Any]) -> Iterator[tuple[str, Tensor]]:
    models = [value for value in parts.values() if isinstance(value, nn.Module)]
    # By identity: what an optimizer has of these is looked at once, under the model's name.
    known = {id(parameter) for model in models for parameter in model.parameters()}
    for part, value in parts.items():
        if isinstance(value, nn.Module):
            yield from ((f"{part} {name}", weight) for name, weight in value.named_parameters())
            # An infinity becomes 1 here, a NaN stays one.
            floating = [(name, buffer) for name, buffer in value.named_buffers() if buffer.is_floating_point()]
            yield from (
                (f"{part} {name}", torch.nan_to_num(buffer, float("nan"), 1.0, 1.0)) for name, buffer in floating
            )
        elif isinstance(value, Optimizer):
            # Masters of half weights are here alone.
            yield from (
                (f"{part} parameter {number}.{index}", weight)
                for number, group in enumerate(value.param_groups)
                for index, weight in enumerate(group["params"])
                if id(weight) not in known
            )
            yield from (
                (f"{part} {slot}", tensor)
                for state in value.state.values()
                for slot, tensor in state.items()
                if isinstance(tensor, Tensor)
            )
