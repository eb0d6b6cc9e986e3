"""What the trainer wants to know of a task."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from torch_ddp import Rank

Batch = list[Tensor]


class Task(NamedTuple):
    """Data, model, loss and metrics.

    Fields:
      training: examples to train on.
      held_out: examples to measure on.
      model: makes the model.
      optimizer: makes the optimizer, of parameters and a learning rate.
      learning_rate: for a batch of `batch_size`.
      batch_size: examples per update, over all ranks.
      loss: ``loss(model, batch, rank)`` returns the mean over the examples of the batch, shape []. It may be a loss of all
        ranks' batches together, as Dice is.
      sums: ``sums(model, batch)`` returns dict of name to tensor, added over all batches of all ranks.
      metrics: turns these sums into numbers.
      best: name of the number whose best checkpoint stays.
      higher: whether that is the highest.
      is_mean: whether the loss is a mean over examples, so that ranks may have different numbers of them.
    """

    training: Dataset[Any]
    held_out: Dataset[Any]
    model: Callable[[], nn.Module]
    optimizer: Callable[..., torch.optim.Optimizer]
    learning_rate: float
    batch_size: int
    loss: Callable[[nn.Module, Batch, Rank], Tensor]
    sums: Callable[[nn.Module, Batch], dict[str, Tensor]]
    metrics: Callable[[Mapping[str, np.ndarray]], dict[str, float]]
    best: str = "loss"
    higher: bool = False
    is_mean: bool = True


def sgd(weights: Any, rate: float) -> torch.optim.Optimizer:
    """Returns gradient descent with momentum."""
    return torch.optim.SGD(weights, lr=rate, momentum=0.9)


def adam(weights: Any, rate: float) -> torch.optim.Optimizer:
    """Returns Adam."""
    return torch.optim.Adam(weights, lr=rate)


def classification_loss(model: nn.Module, batch: Batch, rank: Rank) -> Tensor:
    """Returns the mean cross entropy of logits ``[n, classes, …]`` and labels int64 ``[n, …]``."""
    inputs, labels = batch
    return nn.functional.cross_entropy(model(inputs), labels)


def classification_sums(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    """Returns sums over a batch of cross entropies, right answers and labels."""
    inputs, labels = batch
    logits = model(inputs)
    return {
        "loss": nn.functional.cross_entropy(logits.double(), labels, reduction="sum"),
        "right": (logits.argmax(1) == labels).sum(),
        "labels": torch.tensor(labels.numel()),
    }


def classification_metrics(sums: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Returns mean cross entropy, in nats, and the share of right answers."""
    return {"loss": float(sums["loss"] / sums["labels"]), "accuracy": float(sums["right"] / sums["labels"])}
