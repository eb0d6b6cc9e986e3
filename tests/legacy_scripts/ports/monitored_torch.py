"""The port of monitored.py: it clips what DDP has averaged, before its optimizer's step."""

import torch
from torch import nn
from torch_ddp import like_tf


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Linear(3, 4, bias=False)
        self.v = nn.Linear(4, 1, bias=False)
        self.gamma, self.beta = nn.Parameter(torch.ones(4)), nn.Parameter(torch.zeros(4))
        self.register_buffer("moving_mean", torch.zeros(4))
        self.register_buffer("moving_variance", torch.ones(4))

    def forward(self, x):
        h = self.w(x)
        mean, variance = h.mean(0), h.var(0, unbiased=False)
        with torch.no_grad():
            self.moving_mean.mul_(0.9).add_(0.1 * mean)
            self.moving_variance.mul_(0.9).add_(0.1 * variance)
        return self.v(torch.tanh((h - mean) * torch.rsqrt(variance + 1e-3) * self.gamma + self.beta))


def loss(model, features, targets):
    return (model(features) - targets).square().mean()


def clipped(model, limit):
    optimizer = like_tf.RMSProp(model.parameters(), lr=0.01, decay=0.9, momentum=0.5, epsilon=1.0)
    parameters = list(model.parameters())
    optimizer.register_step_pre_hook(lambda *_: like_tf.clip_grads_by_global_norm_(parameters, limit) and None)
    return optimizer


def optimizer(model):
    return clipped(model, 0.5)


def optimizer_without_clipping(model):
    return like_tf.RMSProp(model.parameters(), lr=0.01, decay=0.9, momentum=0.5, epsilon=1.0)


class ClippedRMSProp(like_tf.RMSProp):
    def step(self, closure=None):
        like_tf.clip_grads_by_global_norm_(self.param_groups[0]["params"], 0.5)
        return super().step(closure)


def optimizer_that_clips_in_its_step(model):
    return ClippedRMSProp(model.parameters(), lr=0.01, decay=0.9, momentum=0.5, epsilon=1.0)
