"""Ports of counted.py: the rate is of the counter before it is counted, or after."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3, bias=False) for _ in range(4)])

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


def loss(model, x):
    return (model(x) - 1.0).square().mean()


def optimizer(model, counted=0):
    made = torch.optim.SGD(model.parameters(), lr=0.25 * (counted + 1) / 8, momentum=0.5)

    def count(optimizer, *_):
        for group in optimizer.param_groups:
            group["lr"] += 0.25 / 8

    made.register_step_post_hook(count)
    return made


def optimizer_that_counts_first(model):
    return optimizer(model, counted=1)


def optimizer_that_counts_twice(model):
    return optimizer(model, counted=2)
