"""Pairwise learning to rank: RankNet's loss with a margin, pairs weighed by the NDCG that swapping them would move."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Normalise(nn.Module):
    """log1p, then zero mean and unit variance in each list, documents behind its end left out."""

    def forward(self, x, mask):
        x = x.sign() * x.abs().log1p()
        m = mask.unsqueeze(-1)
        count = m.sum(dim=1, keepdim=True)
        mean = (x * m).sum(dim=1, keepdim=True) / count
        var = ((x - mean).square() * m).sum(dim=1, keepdim=True) / count
        return (x - mean) / (var + 1e-3).sqrt() * m


class Model(nn.Module):
    def __init__(self, num_features=9, hidden=(20, 12)):
        super().__init__()
        self.normalise = Normalise()
        layers, size = [], num_features
        for units in hidden:
            layers += [nn.Linear(size, units), nn.ELU()]
            size = units
        self.mlp = nn.Sequential(*layers)
        self.out = nn.Linear(size, 1, bias=False)

    def forward(self, features, mask):
        x = self.normalise(features, mask)
        return x, self.out(self.mlp(x)).squeeze(-1)


def soft_ranks(scores, mask):
    higher = torch.sigmoid(scores.unsqueeze(1) - scores.unsqueeze(2)) * mask.unsqueeze(1)
    return higher.sum(dim=2) + 0.5


def discount(rank):
    return math.log(2.0) / torch.log1p(rank)


def ndcg_weights(scores, grades, mask):
    """|change of NDCG| of exchanging two documents, at soft ranks; also returns the ranks."""
    gains = torch.exp2(grades.to(scores.dtype)) - 1.0
    ranks = soft_ranks(scores, mask)
    discounts = discount(ranks)
    positions = torch.arange(1, scores.size(1) + 1, device=scores.device, dtype=scores.dtype)
    ideal = (gains.sort(dim=1, descending=True).values * discount(positions)).sum(dim=1)
    scale = torch.where(ideal > 0, 1.0 / ideal.clamp(min=1e-6), torch.zeros_like(ideal))
    change = (gains[:, :, None] - gains[:, None, :]).abs() * (discounts[:, :, None] - discounts[:, None, :]).abs()
    return change * scale[:, None, None], ranks


def loss(model, features, grades, lengths):
    mask = (torch.arange(features.size(1), device=features.device) < lengths.unsqueeze(1)).to(features.dtype)
    x, scores = model(features, mask)
    delta, ranks = ndcg_weights(scores, grades, mask)
    weights = (0.2 + delta).detach()
    better = (grades[:, :, None] > grades[:, None, :]).to(scores.dtype)
    better = better * mask[:, :, None] * mask[:, None, :]
    difference = scores[:, :, None] - scores[:, None, :]
    pair_loss = F.softplus(1.5 * (0.2 - difference)) * weights * better
    pairs = better.sum(dim=(1, 2))
    list_loss = pair_loss.sum(dim=(1, 2)) / pairs.clamp(min=1)
    total = list_loss.sum() / (pairs > 0).sum().clamp(min=1)
    return total, {"inputs": x, "scores": scores, "ranks": ranks, "list_loss": list_loss}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)


def rate(step):
    # a boundary is the last step at its rate
    return 0.1 if step <= 0 else 0.05 if step <= 1 else 0.02
