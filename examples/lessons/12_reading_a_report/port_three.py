"""A port with a bug, in its own optimizer."""

import torch
from port import Model as Model
from port import loss as loss


def optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=0.01, eps=0.001)
