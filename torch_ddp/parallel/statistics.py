"""Mean and variance over the ranks of a group, each with as many examples as it has."""

from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor


class Statistics(NamedTuple):
    """What batch norm needs to know about the examples of all ranks.

    Fields:
      mean: shape [channels], float64.
      variance: shape [channels], float64; biased, divided by the number of values.
      values: shape [], float64; how many per channel over all ranks.
    """

    mean: Tensor
    variance: Tensor
    values: Tensor


def group_statistics(x: Tensor, axes: list[int], group: dist.ProcessGroup | None) -> Statistics:
    """Returns mean, variance and count over all ranks of a group: one all-gather, the same bits on every rank.

    Each rank sums the squares around its own mean; Chan, Golub and LeVeque's update then moves them to the common mean,
    so that unequal shards weigh what they hold, an empty one nothing, and no large mean cancels.

    Args:
      x: this rank's values, float32 or float64; may be empty.
      axes: all axes but that of the channels.
      group: the ranks; None for all.

    Source: Chan, Golub, LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979.
    """
    gathered = _all_gather(_own(x, axes), group)
    means, squares = gathered[:, 1:].chunk(2, dim=1)
    counts = gathered[:, :1]
    count = counts.sum()
    mean = (counts * means).sum(0) / count
    spread = squares.sum(0) + (counts * (means - mean).square()).sum(0)
    return Statistics(mean, spread / count, count)


def _own(x: Tensor, axes: list[int]) -> Tensor:
    channels = next(size for axis, size in enumerate(x.shape) if axis not in axes)
    count = x.numel() // channels
    # float64: a float32 counts no further than 2**24, which a batch of 64 images of 512 x 512 reaches.
    own = x.new_zeros(1 + 2 * channels, dtype=torch.float64)
    own[0] = count
    if count:
        mean = x.mean(axes, keepdim=True)
        own[1 : 1 + channels] = mean.flatten()
        own[1 + channels :] = (x - mean).square().sum(axes)
    return own


def _all_gather(own: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    parts = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, own, group=group)
    return torch.stack(parts)
