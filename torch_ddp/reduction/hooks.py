"""Communication hooks for DistributedDataParallel: mean, sum, in the order of ranks, weighted by examples."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Literal

import torch
import torch.distributed as dist
from torch import Tensor

from torch_ddp.parallel.errors import ParallelError

Reduction = Literal["mean", "sum", "ordered_mean", "ordered_sum"]
Group = dist.ProcessGroup | None
Reduced = torch.futures.Future[Tensor]


def mean_hook(state: Group, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:  # type: ignore[name-defined]
    """Averages as DDP does without a hook, bit for bit: multiplies by the reciprocal of the world size, then sums.

    torch's own ``allreduce_hook`` divides instead, which rounds otherwise from three ranks on. Attach it with
    ``model.register_comm_hook(group, mean_hook)``, like the other hooks here.

    Args:
      state: the process group; None for all ranks.
      bucket: handed over by DDP.

    Source: mark_variable_ready_dense in torch/csrc/distributed/c10d/reducer.cpp.
    """
    # Before the sum, as DDP: per-rank gradients of 40000 average to 40000 in float16, where Apex, which divides after
    # it, has infinity. From three ranks on 1 / n is rounded, and g * (1 / n) is not g / n.
    return summed(bucket.buffer().mul_(1.0 / dist.get_world_size(state)), state)


def sum_hook(state: Group, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:  # type: ignore[name-defined]
    """Sums, as towers do whose gradients are added and not divided.

    Args:
      state: the process group; None for all ranks.
      bucket: handed over by DDP.
    """
    return summed(bucket.buffer(), state)


def ordered_sum_hook(state: Group, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:  # type: ignore[name-defined]
    """Sums in the order of the ranks, so that the same gradients always give the same bits.

    An all-reduce adds in an order that depends on the backend, on the buckets and on the position in them: from three
    ranks on, the last bits change with them. This gathers everything, world size times the traffic and memory, and
    overlaps nothing: for proofs, not for speed.

    Args:
      state: the process group; None for all ranks.
      bucket: handed over by DDP.
    """
    return finished(_in_order(bucket.buffer(), state))


def ordered_mean_hook(state: Group, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:  # type: ignore[name-defined]
    """Sums in the order of the ranks, then divides, as towers do; see `ordered_sum_hook`.

    Args:
      state: the process group; None for all ranks.
      bucket: handed over by DDP.
    """
    # Divided after the sum, as towers do it: bit for bit theirs. A plain all-reduce is theirs at 1 and 2 ranks only;
    # at 3 it is 1.5e-7 of the largest element away, at 6 1.2e-7 (gloo, float32).
    total = _in_order(bucket.buffer(), state)
    # By a tensor: for a number a GPU multiplies by its rounded reciprocal, and TensorFlow's tf.reduce_mean divides.
    return finished(total.div_(total.new_tensor(dist.get_world_size(state))))


HOOKS: dict[Reduction, Callable[..., Reduced]] = {
    "mean": mean_hook,
    "sum": sum_hook,
    "ordered_mean": ordered_mean_hook,
    "ordered_sum": ordered_sum_hook,
}


def summed(flat: Tensor, group: Group) -> Reduced:
    """Starts an all-reduce in place and returns what a hook returns."""
    # Asynchronous: the backward pass goes on while the bucket travels. With a hook DDP divides by nothing itself.
    if flat.is_sparse:
        flat = flat.coalesce()  # gloo asks a sparse tensor of a GPU for its indices, which one with rows twice refuses
    work = dist.all_reduce(flat, group=group, async_op=True)
    started: torch.futures.Future[list[Tensor]] = work.get_future()
    return started.then(lambda done: done.value()[0])


def finished(flat: Tensor) -> Reduced:
    """Returns what a hook returns when there is nothing to wait for."""
    done: Reduced = torch.futures.Future()
    done.set_result(flat)
    return done


def _in_order(flat: Tensor, group: Group) -> Tensor:
    parts = [torch.empty_like(flat) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, flat, group=group)
    # ((g0 + g1) + g2) + ...: from the left over the ranks, whatever the backend does.
    total = parts[0]
    for part in parts[1:]:
        total.add_(part)
    return flat.copy_(total)


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
        # In double, n_r / N: the sum over ranks of their means over n_r examples is then the mean over all N. In a
        # toy model means of means were 26.5% off in a gradient of unequal shards, those by examples 5e-17.
        self.count, self.share = count, count / sum(counts)
        try:
            yield
        finally:
            self.share = None

    def _everyones(self, count: int) -> list[int]:
        # nccl takes tensors on the GPU alone, gloo on the CPU.
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
