"""Models whose gradients are exact in half precision, and the same training written out by hand."""

from typing import NamedTuple

import torch
from torch import nn

RATE, MOMENTUM = 0.25, 0.5
LEVELS = ("O0", "O1", "O2", "O3")


class Product(nn.Module):
    """Weighs its input twice: by a weight that O2 casts and by one that belongs to a batch norm, which stays float32."""

    def __init__(self, start):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([start, start / 2]))
        self.norm = nn.BatchNorm1d(2)

    def forward(self, x):
        return (x * self.weight + x * self.norm.weight).sum()


class Overflow(NamedTuple):
    """Where an infinity enters: the loss, the iteration, and the weight of the first model of that loss."""

    loss: int
    iteration: int
    weight: str


def sgd(*models):
    return torch.optim.SGD([weight for model in models for weight in model.parameters()], RATE, momentum=MOMENTUM)


def inject(model, weight):
    parameter = model.weight if weight == "weight" else model.norm.weight
    parameter.grad.view(-1)[0] = float("inf")


def momentum_steps(start, grads):
    """Weights after SGD with momentum over some gradients, computed in float64; None is a step left out."""
    value, velocity = start.double(), None
    for grad in grads:
        if grad is not None:
            velocity = grad.double() if velocity is None else MOMENTUM * velocity + grad.double()
            value = value - RATE * velocity
    return value
