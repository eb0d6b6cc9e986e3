"""Deals a data set out to ranks, for training and for exact evaluation."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from torch.utils.data import Dataset, DistributedSampler, Sampler

from torch_ddp.errors import TorchDdpError
from torch_ddp.process_group import Rank


class TrainingSampler(DistributedSampler[Any]):
    """Shuffles as `DistributedSampler` does, and can leave out what a resumed epoch has used already.

    Every epoch has an order of its own, worked out from the seed and the epoch alone: call `set_epoch` before each, or
    every epoch has the order of the first. Where the ranks do not divide the data set, either up to ``world_size - 1``
    examples are left out, other ones each epoch, or some are used twice.

    Args:
      dataset: anything with a length.
      rank: this process.
      shuffle: whether to shuffle.
      seed: of the order; the same on every rank.
      drop_last: True leaves examples out, False uses some twice.
      ragged: neither: each example once, so that ranks have different numbers of them.

    Source: torch/utils/data/distributed.py.
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        rank: Rank,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = True,
        ragged: bool = False,
    ) -> None:
        super().__init__(dataset, rank.world_size, rank.rank, shuffle, seed, drop_last and not ragged)
        # Of what super pads with examples of the beginning, to the same number on every rank, only so many are this rank's.
        self._count = len(range(rank.rank, len(dataset), rank.world_size)) if ragged else self.num_samples  # type: ignore[arg-type]
        self._used = 0

    def set_epoch(self, epoch: int, used: int = 0) -> None:
        """Sets the epoch, and where in it to begin.

        Args:
          epoch: number of the epoch, from 0.
          used: number of this rank's examples that the epoch has used already.

        Raises:
          TorchDdpError: this rank has fewer examples than that.
        """
        if not 0 <= used <= self._count:
            raise TorchDdpError(
                f"sampler: expected 0 to {self._count} used examples, got {used}. "
                "Resume with the data and the batch size that the checkpoint was saved with."
            )
        super().set_epoch(epoch)
        self._used = used

    def __iter__(self) -> Iterator[Any]:
        # The order is a function of seed and epoch alone, so that leaving out is all that resuming takes.
        return islice(super().__iter__(), self._used, self._count)

    def __len__(self) -> int:
        return self._count - self._used


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
