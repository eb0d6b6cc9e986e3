"""The port of placeholder_slices.py."""

import torch
from torch import nn
from torch_ddp import like_tf


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(5, 4)
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(x)))


class Leaky(Model):
    def forward(self, x):
        return self.out(nn.functional.leaky_relu(self.hidden(x)))


def loss(model, X, Y):
    return -(torch.log_softmax(model(X), 1) * Y).sum(1).mean()


def wrong_loss(model, X, Y):
    return -(torch.log_softmax(model(X), 1) * Y).sum(1).sum()


def optimizer_that_has_counted(model):
    optimizer = like_tf.Adam(model.parameters(), lr=0.01)
    for group in optimizer.param_groups:
        group["beta1_power"], group["beta2_power"] = 0.81, 0.998001
    return optimizer
