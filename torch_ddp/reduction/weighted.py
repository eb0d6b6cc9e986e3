"""Averages gradients over examples rather than over ranks."""

import contextlib
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from torch_ddp.parallel.errors import ParallelError
from torch_ddp.reduction.hooks import Group, summed


class ExampleCounts:
    """How many examples each rank has in a step: the state of `weighted_mean_hook`.

    Args:
      group: the process group; None for all ranks.
    """

    def __init__(self, group: Group = None) -> None:
        self.group = group
        self.share: float | None = None
        self.count = 0

    @contextlib.contextmanager
    def of(self, count: int) -> Iterator[None]:
        """Weighs this rank's gradients of the backward passes inside by its share of all ranks' examples.

        Args:
          count: examples that this rank's loss is the mean of; 0 is allowed on some ranks, whose gradients then do not
            count, whatever they are.

        Raises:
          ParallelError: the count is negative, or no rank has an example.
        """
        # An error on one rank alone would leave the others waiting, so the counts travel first.
        counts = self._everyones(count)
        if min(counts) < 0 or not any(counts):
            raise ParallelError(
                f"ExampleCounts: expected counts that are not negative, and one example at least, got {counts} by rank. "
                "Give each rank the length of its shard."
            )
        self.count, self.share = count, count / sum(counts)
        try:
            yield
        finally:
            self.share = None

    def _everyones(self, count: int) -> list[int]:
        device = "cuda" if dist.get_backend(self.group) == "nccl" else "cpu"
        parts = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(dist.get_world_size(self.group))]
        dist.all_gather(parts, torch.tensor([count], device=device), group=self.group)
        return [int(part) for part in parts]


def weighted_mean_hook(state: ExampleCounts, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:  # type: ignore[name-defined]
    """Averages over all examples: the gradient of the mean over the whole batch, however unequal the shards are.

    The mean over ranks counts an example of a small shard for more. Every rank's loss has to be the mean over its own
    examples, and backward has to run inside ``with counts.of(len(shard)):``. Attach it with
    ``model.register_comm_hook(counts, weighted_mean_hook)``.

    Args:
      state: the ranks' counts.
      bucket: handed over by DDP.

    Raises:
      ParallelError: outside `ExampleCounts.of`.
    """
    if state.share is None:
        raise ParallelError(
            "weighted_mean_hook: expected backward() inside ExampleCounts.of, got it outside. "
            "Write: with counts.of(len(shard)): loss.backward()"
        )
    flat = bucket.buffer()
    # The mean over no examples is NaN, and so is zero times that.
    flat = flat.mul_(state.share) if state.count else flat.zero_()
    return summed(flat, state.group)
