"""Advantage-weighted imitation with a tanh-squashed mixture policy."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class ObservationNormalizer(nn.Module):
    def __init__(self, size, clip=5.0):
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("var", torch.ones(size))
        self.register_buffer("count", torch.tensor(1e-2))
        self.clip = clip

    @torch.no_grad()
    def update(self, x):
        n = x.size(0)
        delta = x.mean(0) - self.mean
        total = self.count + n
        m2 = self.var * self.count + x.var(0, unbiased=False) * n + delta ** 2 * self.count * n / total
        self.mean += delta * n / total
        self.var.copy_(m2 / total)
        self.count.copy_(total)

    def forward(self, x):
        if self.training:
            self.update(x)
        return ((x - self.mean) / torch.sqrt(self.var + 1e-8)).clamp(-self.clip, self.clip)


class SquashedMixtureHead(nn.Module):
    def __init__(self, features, actions=3, components=4, log_std_range=(-2.0, 1.0)):
        super().__init__()
        self.weights = nn.Linear(features, components)
        self.means = nn.Linear(features, components * actions)
        self.log_stds = nn.Linear(features, components * actions)
        self.shape = (components, actions)
        self.low, self.high = log_std_range

    def forward(self, features, actions):
        log_weights = F.log_softmax(self.weights(features), dim=-1)
        means = self.means(features).unflatten(-1, self.shape)
        log_stds = torch.tanh(self.log_stds(features).unflatten(-1, self.shape))
        log_stds = self.low + 0.5 * (self.high - self.low) * (log_stds + 1)
        z = (torch.atanh(actions).unsqueeze(1) - means) / log_stds.exp()
        log_gauss = (-0.5 * z ** 2 - log_stds - 0.5 * math.log(2 * math.pi)).sum(-1)
        log_prob = torch.logsumexp(log_weights + log_gauss, dim=-1)
        log_prob = log_prob - torch.log(1 - actions ** 2 + 1e-6).sum(-1)
        entropy = -(log_weights.exp() * log_weights).sum(-1).mean()
        return log_prob, entropy


class MixturePolicy(nn.Module):
    def __init__(self, observations=6, hidden=24):
        super().__init__()
        self.normalizer = ObservationNormalizer(observations)
        self.trunk = nn.Sequential(nn.Linear(observations, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.head = SquashedMixtureHead(hidden)
        self.critic = nn.Sequential(nn.Linear(observations, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, observations, actions):
        normed = self.normalizer(observations)
        log_prob, entropy = self.head(self.trunk(normed), actions)
        return normed, log_prob, entropy, self.critic(normed).squeeze(-1)


def loss(model, observations, actions, returns):
    normed, log_prob, entropy, value = model(observations, actions)
    advantage = (returns - value).detach()
    weight = torch.exp(advantage / 1.5).clamp(max=5.0)
    imitation = -(weight * log_prob).mean()
    total = imitation - 0.01 * entropy + 0.5 * F.mse_loss(value, returns)
    return total, {"normed": normed, "log_prob": log_prob, "value": value, "imitation": imitation, "entropy": entropy}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=0.1, total_iters=10)


def step(model, optimizer, scheduler, observations, actions, returns):
    optimizer.zero_grad()
    total, outputs = loss(model, observations, actions, returns)
    total.backward()
    grads = [p.grad for p in model.parameters()]
    norm = torch.sqrt(sum(g.square().sum() for g in grads))
    torch._foreach_mul_(grads, 0.5 / norm.clamp(min=0.5))
    optimizer.step()
    scheduler.step()
    return total, outputs
