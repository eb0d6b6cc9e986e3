"""Joins tensors of which every rank has a different number of rows."""

import torch
import torch.distributed as dist
from torch import Tensor

from torch_ddp.errors import TorchDdpError
from torch_ddp.group import Rank


def gather_ragged(tensor: Tensor, rank: Rank) -> list[Tensor]:
    """Returns on every rank a list over the ranks of their tensors.

    Args:
      tensor: ``[rows, ...]``; the number of rows may differ between ranks and may be zero, the rest may not.
      rank: this process.

    Raises:
      TorchDdpError: the tensor is a scalar.
    """
    if tensor.ndim == 0:
        raise TorchDdpError("gather: expected a tensor with rows, got a scalar. Give it an axis, or use reduce_tensor.")
    if rank.world_size == 1:
        return [tensor]
    counts = [torch.zeros(1, dtype=torch.int64, device=tensor.device) for _ in range(rank.world_size)]
    dist.all_gather(counts, torch.tensor([len(tensor)], device=tensor.device))
    longest = max(int(count) for count in counts)
    # Collectives want the same size of every rank.
    padded = tensor.new_zeros((longest, *tensor.shape[1:]))
    padded[: len(tensor)] = tensor
    parts = [torch.empty_like(padded) for _ in counts]
    dist.all_gather(parts, padded)
    return [part[: int(count)] for part, count in zip(parts, counts, strict=True)]


def gather_by_index(indices: Tensor, values: Tensor, rank: Rank) -> Tensor:
    """Returns on every rank the values of all examples, in the order of the data set.

    Args:
      indices: int64 ``[rows]``, which examples these are; over all ranks each of 0 to n - 1 once.
      values: ``[rows, ...]``, e.g. predictions.
      rank: this process.

    Returns:
      ``[n, ...]``.

    Raises:
      TorchDdpError: there are not as many indices as values, or an example is missing or there twice.
    """
    if len(indices) != len(values):
        raise TorchDdpError(
            f"gather: expected an index for each of {len(values)} values, got {len(indices)}. Collect both per batch."
        )
    where = torch.cat(gather_ragged(indices, rank))
    joined = torch.cat(gather_ragged(values, rank))
    order = torch.argsort(where)
    if not torch.equal(where[order], torch.arange(len(where), device=where.device)):
        raise TorchDdpError(
            f"gather: expected every example from 0 to {len(where) - 1} once, got some twice or not at all. "
            "Use ExactSampler: DistributedSampler repeats examples."
        )
    return joined[order]
