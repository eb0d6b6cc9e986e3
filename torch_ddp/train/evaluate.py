"""Evaluates a model over all ranks, ragged shards included."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from torch_ddp.errors import TorchDdpError
from torch_ddp.gather import gather_everywhere
from torch_ddp.process_group import Rank

Batch = TypeVar("Batch")
CPU = torch.device("cpu")


def evaluate(
    model: nn.Module,
    batches: Iterable[Batch],
    metrics: Callable[[nn.Module, Batch], dict[str, Tensor]],
    rank: Rank,
    device: torch.device = CPU,
) -> dict[str, float]:
    """Returns the mean of every metric over all examples of all ranks, the same on every rank.

    Sums are taken in float64 and joined once, at the end, so ranks may have different numbers of batches, or none. The
    model is used without DDP's wrapper, whose forward pass would wait for the other ranks, in evaluation mode and without
    gradients; its training mode is set back.

    Batch norm's statistics are each rank's own between two training steps. Evaluate right after a step only with statistics
    that the ranks agree on.

    Args:
      model: the model, wrapped or not.
      batches: this rank's batches, of any sizes; together, with `ExactSampler`, they hold every example once.
      metrics: ``metrics(model, batch)`` returns dict of name to tensor ``[batch]``: one value per example.
      rank: this process.
      device: where the backend's tensors live.

    Raises:
      TorchDdpError: a metric is not one value per example, ranks have different metrics, or nobody has an example.
    """
    with _evaluating(model) as bare:
        own = _sums(bare, batches, metrics)
    return _means(gather_everywhere(own, rank, device))


def evaluate_sums(
    model: nn.Module,
    batches: Iterable[Batch],
    sums: Callable[[nn.Module, Batch], dict[str, Tensor]],
    rank: Rank,
    device: torch.device = CPU,
) -> dict[str, np.ndarray]:
    """Returns sums over all batches of all ranks, in float64, the same on every rank.

    For metrics that are no means over examples: Dice, precision and recall are ratios of such sums, and the mean of the
    ranks' ratios is another number. The model is used as by `evaluate`.

    Args:
      model: the model, wrapped or not.
      batches: this rank's batches, of any sizes.
      sums: ``sums(model, batch)`` returns dict of name to tensor, of the same shape for every batch.
      rank: this process.
      device: where the backend's tensors live.

    Raises:
      TorchDdpError: ranks have different names, or nobody has a batch.
    """
    own: dict[str, np.ndarray] = {}
    with _evaluating(model) as bare:
        for batch in batches:
            for name, value in sums(bare, batch).items():
                added = value.detach().double().cpu().numpy()
                own[name] = own[name] + added if name in own else added
    ranks = [each for each in gather_everywhere(own, rank, device) if each]
    return {name: np.sum([each[name] for each in ranks], axis=0) for name in _names(ranks)}


@contextlib.contextmanager
def _evaluating(model: nn.Module) -> Iterator[nn.Module]:
    bare = model.module if isinstance(model, DistributedDataParallel) else model
    modes = {module: module.training for module in bare.modules()}
    bare.eval()
    try:
        with torch.no_grad():
            yield bare
    finally:
        for module, training in modes.items():
            module.training = training


def _sums(
    model: nn.Module, batches: Iterable[Batch], metrics: Callable[[nn.Module, Batch], dict[str, Tensor]]
) -> dict[str, np.ndarray]:
    sums: dict[str, np.ndarray] = {}
    for batch in batches:
        for name, values in metrics(model, batch).items():
            if values.ndim != 1:
                raise TorchDdpError(
                    f"evaluate: expected {name!r} to be one value per example, got shape {tuple(values.shape)}. "
                    "Leave its mean to evaluate, e.g. with reduction='none'."
                )
            # [sum, examples] by metric, float64: what batches and ranks of any sizes add up to.
            found = np.array([float(values.double().sum()), len(values)])
            sums[name] = sums[name] + found if name in sums else found
    return sums


def _means(ranks: list[dict[str, np.ndarray]]) -> dict[str, float]:
    # Ranks without a batch have no metrics, and are no mistake.
    ranks = [own for own in ranks if own]
    means = {}
    for name in _names(ranks):
        total, count = np.sum([own[name] for own in ranks], axis=0)
        means[name] = float(total / count)
    return means


def _names(ranks: list[dict[str, np.ndarray]]) -> tuple[str, ...]:
    found = {tuple(sorted(own)) for own in ranks}
    if len(found) != 1:
        described = " and ".join(str(list(names)) for names in sorted(found)) or "no example on any rank"
        raise TorchDdpError(
            f"evaluate: expected the same metrics of all ranks, got {described}. Return the same names for every batch."
        )
    return min(found)


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
    # [sum, examples]: a mean alone cannot be joined with another.
    own = {name: np.array([float(value) * count, count], np.float64) for name, value in values.items() if count}
    ranks = [found for found in gather_everywhere(own, rank, device) if found]
    names = {tuple(sorted(found)) for found in ranks}
    if len(names) != 1:
        raise TorchDdpError(
            f"mean_over_ranks: expected the same metrics of all ranks with examples, got {sorted(names) or 'none'}. "
            "Give them the same names on every rank."
        )
    sums = {name: np.sum([found[name] for found in ranks], axis=0) for name in min(names)}
    return {name: float(total / weight) for name, (total, weight) in sums.items()}


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
    # where[order] is 0, 1, ... exactly when every example is there once: one comparison finds both mistakes.
    order = torch.argsort(where)
    if not torch.equal(where[order], torch.arange(len(where), device=where.device)):
        raise TorchDdpError(
            f"gather: expected every example from 0 to {len(where) - 1} once, got some twice or not at all. "
            "Use ExactSampler: DistributedSampler repeats examples."
        )
    return joined[order]


class _SumOverRanks(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, tensor: Tensor, world_size: int) -> Tensor:
        context.world_size = world_size
        total = tensor.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        # Every rank works out the same loss of the same sum, so that no collective is needed.
        return gradients[0] * context.world_size, None


def sum_over_ranks(tensor: Tensor, rank: Rank) -> Tensor:
    """Returns the sum of a tensor over the ranks, through which a loss of it is differentiated.

    For losses that are no means over examples, such as Dice: each rank sums over its own examples, this adds the sums, and
    every rank works out the same loss, of the whole batch. DistributedDataParallel then averages the gradients; they are
    multiplied by the number of ranks here, so that what comes out is the gradient of that loss, as one process with the
    whole batch has it.

    Args:
      tensor: of the same shape on every rank.
      rank: this process.
    """
    if rank.world_size == 1:
        return tensor
    total: Tensor = _SumOverRanks.apply(tensor, rank.world_size)  # type: ignore[no-untyped-call]
    return total


def broadcast_statistics(model: nn.Module, rank: Rank) -> None:
    """Overwrites every rank's buffers with rank 0's: what DDP does at the next training step anyway.

    After a step each rank's batch norm has seen its own shard alone, and DDP evens that out only before the next one.
    Evaluated in between, each rank would use statistics of its own. Rank 0's are the ones that a checkpoint holds, and
    what TensorFlow's usual rule keeps: the first tower's.

    Args:
      model: wrapped or not; its buffers are overwritten.
      rank: this process.
    """
    if rank.world_size > 1:
        for buffer in model.buffers():
            dist.broadcast(buffer, src=0)
