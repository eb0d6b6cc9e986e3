"""The port, which takes the first where the sums tie."""

import torch
from torch import nn


class Model(nn.Module):
    """Holds both weights; features ``[shard, 4]`` to the larger sum ``[shard, 1]``."""

    def __init__(self):
        super().__init__()
        self.weights = nn.Parameter(torch.full((2, 1), 0.5))
        self.zeros = nn.Parameter(torch.zeros(4, 1))

    def forward(self, features):
        one, other = features[:, :2] @ self.weights, features[:, 2:] @ self.weights
        return torch.where(one >= other, one, other) + rectified(features @ self.zeros)


def rectified(x):
    return x.relu()


def loss(model, features, targets):
    """Returns the mean squared error over this rank's shard, and the larger sum."""
    larger = model(features)
    return (larger[:, 0] - targets).square().mean(), {"larger": larger}
