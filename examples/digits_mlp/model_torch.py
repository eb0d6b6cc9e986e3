"""The port: the same network for one rank of DistributedDataParallel."""

import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    """Two dense layers: images ``[shard, 28, 28, 1]`` to hidden ``[shard, 64]`` and logits ``[shard, 10]``."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(784, 64)
        self.logits = nn.Linear(64, 10)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = F.relu(self.hidden(images.flatten(1)))
        return hidden, self.logits(hidden)


def loss(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Returns the mean cross entropy over this rank's shard, and what else to compare."""
    hidden, logits = model(images)
    return F.cross_entropy(logits, labels.long()), {"hidden": hidden, "logits": logits}
