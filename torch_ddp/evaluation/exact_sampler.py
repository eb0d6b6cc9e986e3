"""Deals a data set out to the ranks for evaluation: every example to one rank, none twice."""

from collections.abc import Iterator
from typing import Any

from torch.utils.data import Dataset, Sampler

from torch_ddp.group import Rank


class ExactSampler(Sampler[int]):
    """Yields every `world_size`-th index, beginning at the rank: so many per rank as there are, without padding.

    `torch.utils.data.DistributedSampler` gives all ranks the same number by using some examples twice, which biases
    every metric: the mean of 0 to 4 over two ranks comes out as 1.667.

    Ranks may get one example more than others, so no collective may run per batch: see `evaluate`.

    Args:
      dataset: anything with a length.
      rank: this process.
    """

    def __init__(self, dataset: Dataset[Any], rank: Rank) -> None:
        self._indices = range(rank.rank, len(dataset), rank.world_size)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[int]:
        return iter(self._indices)

    def __len__(self) -> int:
        return len(self._indices)
