"""Combines what each rank measured into one number."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from torch_ddp.errors import TorchDdpError
from torch_ddp.gather import gather_everywhere
from torch_ddp.group import Rank

CPU = torch.device("cpu")


def reduce_tensor(tensor: Tensor, rank: Rank, reduce: Literal["mean", "sum"] = "mean") -> Tensor:
    """Returns a new tensor: the mean or sum over the ranks, element by element; the same on every rank.

    The mean is over ranks, whatever number of examples each has; see `mean_over_ranks`.

    Args:
      tensor: of the same shape and dtype on every rank; of a floating dtype for the mean.
      rank: this process.
      reduce: "mean" or "sum".

    Raises:
      TorchDdpError: `reduce` is neither, or the mean of integers is asked for.
    """
    if reduce not in ("mean", "sum"):
        raise TorchDdpError(f"reduce_tensor: expected reduce to be 'mean' or 'sum', got {reduce!r}.")
    if reduce == "mean" and not (tensor.is_floating_point() or tensor.is_complex()):
        raise TorchDdpError(
            f"reduce_tensor: expected floating-point numbers to average, got {tensor.dtype}. Convert, or take the sum."
        )
    reduced = tensor.detach().clone()
    if rank.world_size > 1:
        dist.all_reduce(reduced)
    return reduced / rank.world_size if reduce == "mean" else reduced


def mean_over_ranks(
    values: Mapping[str, float], count: int, rank: Rank, device: torch.device = CPU
) -> dict[str, float]:
    """Returns the means over all examples from each rank's means over its own; the same on every rank.

    Args:
      values: dict of metric name to this rank's mean; left out of the result if its count is zero.
      count: number of examples that they are means of, at least 0; it is the weight of this rank.
      rank: this process.
      device: where the backend's tensors live.

    Raises:
      TorchDdpError: ranks with examples have different metrics, or none has any.
    """
    own = {name: np.array([float(value) * count, count], np.float64) for name, value in values.items() if count}
    ranks = [found for found in gather_everywhere(own, rank, device) if found]
    names = {tuple(sorted(found)) for found in ranks}
    if len(names) != 1:
        raise TorchDdpError(
            f"mean_over_ranks: expected the same metrics of all ranks with examples, got {sorted(names) or 'none'}. "
            "Name them alike on every rank."
        )
    sums = {name: np.sum([found[name] for found in ranks], axis=0) for name in min(names)}
    return {name: float(total / weight) for name, (total, weight) in sums.items()}
