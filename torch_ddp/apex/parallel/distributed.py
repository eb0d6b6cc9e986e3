"""The wrapper for data parallelism, and the flat collectives beneath it that scripts call themselves."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from torch_ddp.apex.apex_C import flatten, unflatten
from torch_ddp.parallel import DistributedDataParallel, Reducer

__all__ = [
    "DistributedDataParallel",
    "Reducer",
    "apply_flat_dist_call",
    "extract_tensors",
    "flat_dist_call",
    "flatten",
    "split_by_type",
    "split_half_float_double",
    "unflatten",
]


@torch.no_grad()
def apply_flat_dist_call(bucket: Sequence[Tensor], call: Callable[..., Any], extra_args: Any = None) -> None:
    """Calls a collective on one flat copy of the tensors and writes the result back; an all-reduce becomes the mean.

    Args:
        bucket: tensors of one dtype and device; changed in place.
        call: of `torch.distributed`, which works in place on its first argument.
        extra_args: the other arguments of `call`.

    Counterpart: apex.parallel.distributed.apply_flat_dist_call
    """
    flat = flatten(bucket)
    call(flat, *(extra_args or ()))
    if call is dist.all_reduce:
        # After the sum, as the wrapper does.
        flat /= dist.get_world_size()
    for tensor, new in zip(bucket, unflatten(flat, bucket), strict=True):
        tensor.copy_(new)


def flat_dist_call(tensors: Iterable[Tensor], call: Callable[..., Any], extra_args: Any = None) -> None:
    """Calls a collective on tensors of any types, once for each type; see `apply_flat_dist_call`.

    Args:
        tensors: changed in place; in the same order on all ranks.
        call: of `torch.distributed`.
        extra_args: the other arguments of `call`.

    Counterpart: apex.parallel.distributed.flat_dist_call
    """
    for bucket in split_by_type(tensors).values():
        apply_flat_dist_call(bucket, call, extra_args)


def split_by_type(tensors: Iterable[Tensor]) -> dict[str, list[Tensor]]:
    """Returns the tensors by what `Tensor.type()` says, in their order.

    Args:
        tensors: of any dtypes.
    """
    buckets: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        buckets.setdefault(str(tensor.type()), []).append(tensor)
    return buckets


def split_half_float_double(tensors: Iterable[Tensor]) -> list[list[Tensor]]:
    """Returns the float16, then the float32, then the float64 tensors; others are left out, as in Apex.

    Args:
        tensors: of any dtypes.
    """
    several = list(tensors)
    buckets = [
        [tensor for tensor in several if tensor.dtype is dtype]
        for dtype in (torch.float16, torch.float32, torch.float64)
    ]
    return [bucket for bucket in buckets if bucket]


def extract_tensors(maybe_tensor: Any, tensor_list: list[Tensor]) -> None:
    """Appends the tensors in nested iterables to a list.

    Args:
        maybe_tensor: a tensor, or an iterable of such; anything else is passed over.
        tensor_list: which grows.
    """
    if isinstance(maybe_tensor, Tensor):
        tensor_list.append(maybe_tensor)
    elif hasattr(maybe_tensor, "__iter__") and not isinstance(maybe_tensor, str):
        for item in maybe_tensor:
            extract_tensors(item, tensor_list)
