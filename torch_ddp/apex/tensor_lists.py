"""Arithmetic of Apex's kernels on lists of tensors: numbers rounded as they are there, half precision in float32."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

Tensors = Sequence[Tensor]
Lists = Sequence[Tensors]
Group = list[Tensor] | tuple[Tensor, ...]


def is_double(tensors: Tensors) -> bool:
    """Returns whether all tensors are float64, which Apex's optimizers refuse and these compute in float64."""
    return all(tensor.dtype is torch.float64 for tensor in tensors)


def rounding(tensors: Tensors) -> Callable[[float], float]:
    """Returns what rounds a number as the arguments of a kernel are rounded: to float32, but for float64 tensors.

    ``1 - beta`` is taken after it: for 0.999 that is 0.0010000467, and not 0.001.

    Args:
        tensors: that the kernel works on.
    """
    return float if is_double(tensors) else _to_float32


def _to_float32(number: float) -> float:
    return float(np.float32(number))


def widened(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Returns half tensors in float32 copies, and the others themselves, without their graphs.

    Args:
        tensors: of any floating point dtype.
    """
    return [
        tensor.detach() if tensor.dtype in (torch.float32, torch.float64) else tensor.detach().float()
        for tensor in tensors
    ]


def write_back(targets: Tensors, values: Tensors) -> None:
    """Rounds values into the tensors that they were widened from.

    Args:
        targets: changed in place where they are not the values themselves.
        values: in the same order.
    """
    apart = [(target, value) for target, value in zip(targets, values, strict=True) if target.dtype is not value.dtype]
    if apart:
        torch._foreach_copy_([target.detach() for target, _ in apart], [value for _, value in apart])


def norms(tensors: Tensors) -> Tensor:
    """Returns the Euclidean norm of each tensor, shape [tensors], at least in float32.

    Args:
        tensors: on one device; at least one.
    """
    return torch.stack(torch._foreach_norm(widened(tensors), 2))


def note_overflow(noop_flag: Tensor, tensors: Iterable[Tensor]) -> None:
    """Sets the flag to 1 where an element of a tensor is not finite.

    Args:
        noop_flag: int32, shape [1].
        tensors: on its device.
    """
    for tensor in tensors:
        # On the device, without waiting for it.
        noop_flag.masked_fill_(~torch.isfinite(tensor.detach()).all(), 1)
