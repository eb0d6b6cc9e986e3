"""Sends many tensors as one: flat buffers, one per dtype and device."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from torch_ddp.parallel.errors import ParallelError

HALVES = (torch.float16, torch.bfloat16)


class Scaling(NamedTuple):
    """How Apex scales a gradient around the all-reduce.

    Fields:
      average: whether to divide by the number of ranks; otherwise the sum over the ranks, divided by `predivide`, stays.
      predivide: what each rank divides by before the sum; the rest of the division follows after it.
      always_fp32: whether half precision is summed in float32.

    Source: allreduce_bucket in apex/parallel/distributed.py, 25.04.
    """

    average: bool = True
    predivide: float = 1.0
    always_fp32: bool = False

    def before(self, flat: Tensor) -> Tensor:
        """Returns what goes into the sum: `flat` itself, scaled in place, or a float32 copy."""
        sent = flat.float() if self.always_fp32 and flat.dtype in HALVES else flat
        return sent if self.predivide == 1.0 else sent.mul_(1.0 / self.predivide)

    def after(self, summed: Tensor, flat: Tensor) -> Tensor:
        """Writes what comes out of the sum to `flat`, scaled, and returns it."""
        if self.average:
            summed.mul_(self.predivide / dist.get_world_size())
        return flat if summed is flat else flat.copy_(summed)


def flatten(tensors: Iterable[Tensor]) -> list[tuple[list[Tensor], Tensor]]:
    """Returns the tensors by dtype and device, each group with a flat copy of itself, shape [elements]."""
    groups: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for tensor in tensors:
        if tensor.layout is not torch.strided:
            raise ParallelError(
                f"flatten: expected dense gradients, got one of layout {tensor.layout}. Use Embedding(sparse=False)."
            )
        groups.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    return [(group, torch.cat([tensor.reshape(-1) for tensor in group])) for group in groups.values()]


def views(flat: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Returns the parts of a flat buffer in the shapes of the tensors it was made of."""
    parts = torch.split(flat, [tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]


@torch.no_grad()
def broadcast_from_first(tensors: Iterable[Tensor]) -> None:
    """Overwrites the tensors with those of rank 0."""
    for group, flat in flatten(tensor.detach() for tensor in tensors):
        dist.broadcast(flat, 0)
        for tensor, new in zip(group, views(flat, group), strict=True):
            tensor.copy_(new)


@torch.no_grad()
def all_reduce(tensors: Iterable[Tensor], scaling: Scaling) -> list[Tensor]:
    """Reduces the tensors in place over all ranks, one all-reduce per dtype, and returns the flat results."""
    flats = []
    for group, flat in flatten(tensors):
        sent = scaling.before(flat)
        dist.all_reduce(sent)
        scaling.after(sent, flat)
        for tensor, new in zip(group, views(flat, group), strict=True):
            tensor.copy_(new)
        flats.append(flat)
    return flats


def gradients(parameters: Sequence[Tensor]) -> list[Tensor]:
    """Returns the gradients of those parameters that any rank has a gradient of, zeros where this one has none.

    Apex sends what is there, and mixes up or waits for ever where the ranks differ.

    Args:
      parameters: the same ones in the same order on every rank.
    """
    if not parameters:
        return []
    used = torch.tensor([parameter.grad is not None for parameter in parameters], dtype=torch.int32)
    used = used.to(parameters[0].device)
    dist.all_reduce(used, dist.ReduceOp.MAX)
    for parameter, anywhere in zip(parameters, used.tolist(), strict=True):
        if anywhere and parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    return [parameter.grad for parameter in parameters if parameter.grad is not None]
