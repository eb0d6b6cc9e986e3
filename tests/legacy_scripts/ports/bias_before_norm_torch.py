"""The port of bias_before_norm.py, with optimizers that do otherwise."""

import torch
from torch import nn
from torch_ddp import like_tf


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 4)
        self.gamma, self.beta = nn.Parameter(torch.ones(4)), nn.Parameter(torch.zeros(4))
        self.out = nn.Linear(4, 1, bias=False)

    def forward(self, x):
        h = self.linear(x)
        mean, variance = h.mean(0), h.var(0, unbiased=False)
        return self.out(torch.tanh((h - mean) * torch.rsqrt(variance + 1e-3) * self.gamma + self.beta))


def loss(model, features, prices):
    return (model(features) - prices).square().sum()


def optimizer_with_another_beta2(model):
    return like_tf.Adam(model.parameters(), lr=0.001, beta2=0.99)


def optimizer_that_nudges_the_bias(model):
    made = like_tf.Adam(model.parameters(), lr=0.001)
    made.register_step_post_hook(lambda *_: nudge(model.linear.bias))
    return made


def nudge(bias):
    with torch.no_grad():
        bias.add_(1e-6)
