"""Evaluates a model over all ranks."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from torch_ddp.errors import TorchDdpError
from torch_ddp.gather import gather_everywhere
from torch_ddp.group import Rank

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
    bare = model.module if isinstance(model, DistributedDataParallel) else model
    modes = {module: module.training for module in bare.modules()}
    bare.eval()
    try:
        with torch.no_grad():
            own = _sums(bare, batches, metrics)
    finally:
        for module, training in modes.items():
            module.training = training
    return _means(gather_everywhere(own, rank, device))


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
            found = np.array([float(values.double().sum()), len(values)])
            sums[name] = sums[name] + found if name in sums else found
    return sums


def _means(ranks: list[dict[str, np.ndarray]]) -> dict[str, float]:
    found = {tuple(sorted(own)) for own in ranks if own}
    if len(found) != 1:
        described = " and ".join(str(list(names)) for names in sorted(found)) or "no example on any rank"
        raise TorchDdpError(
            f"evaluate: expected the same metrics of all ranks, got {described}. Return the same names for every batch."
        )
    means = {}
    for name in min(found):
        total, count = np.sum([own[name] for own in ranks if own], axis=0)
        means[name] = float(total / count)
    return means
