"""The port."""

import torch.distributed as dist
from torch import nn


class Model(nn.Module):
    """Two dense layers: features ``[shard, 4]``; ranks 0 and 2 use both."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)

    def forward(self, features):
        first = self.first(features).tanh()
        return self.second(first).tanh() if dist.get_rank() % 2 == 0 else first


def loss(model, features, targets):
    """Returns the mean squared error over this rank's shard."""
    out = model(features)
    return (out - targets).square().mean(), {"out": out}
