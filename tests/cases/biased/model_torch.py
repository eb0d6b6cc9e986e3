"""The port."""

import torch
from torch import nn


class Model(nn.Module):
    """Holds both layers and the norm; features ``[shard, 3]`` to ``[shard, 1]``."""

    def __init__(self):
        super().__init__()
        self.weights, self.bias = nn.Parameter(torch.zeros(3, 4)), nn.Parameter(torch.zeros(4))
        self.gamma, self.beta = nn.Parameter(torch.ones(4)), nn.Parameter(torch.zeros(4))
        self.out = nn.Parameter(torch.zeros(4, 1))

    def forward(self, features):
        x = features @ self.weights + self.bias
        mean, variance = x.mean(0), x.var(0, unbiased=False)
        return torch.tanh((x - mean) * torch.rsqrt(variance + 1e-3) * self.gamma + self.beta) @ self.out


def loss(model, features, prices):
    """Returns the summed squared error over this rank's shard."""
    return (model(features) - prices).square().sum()
