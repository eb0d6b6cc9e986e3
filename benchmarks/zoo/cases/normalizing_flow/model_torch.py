"""A small Glow on vectors in PyTorch."""

import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.distributions import Normal


class ZeroLinear(nn.Linear):
    """Begins at zero; its outputs have a learnt scale."""

    def __init__(self, in_features, out_features, factor=3.0):
        super().__init__(in_features, out_features)
        self.log_scale = nn.Parameter(torch.zeros(out_features))
        self.factor = factor
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, x):
        return super().forward(x) * torch.exp(self.log_scale * self.factor)


class ActNorm(nn.Module):
    def __init__(self, features, factor=3.0):
        super().__init__()
        self.loc = nn.Parameter(torch.zeros(features))
        self.log_scale = nn.Parameter(torch.zeros(features))
        self.factor = factor

    def forward(self, x):
        log_scale = self.factor * self.log_scale
        return (x + self.loc) * log_scale.exp(), log_scale.sum()


class AffineCoupling(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(features // 2, hidden), nn.ReLU(),
            nn.Linear(hidden, hidden), nn.ReLU(),
            ZeroLinear(hidden, features),
        )

    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        h = self.net(a)
        shift, logit = h[:, 0::2], h[:, 1::2]
        b = (b + shift) * torch.sigmoid(logit + 2.0)
        return torch.cat([a, b], 1), F.logsigmoid(logit + 2.0).sum(1)


class FlowStep(nn.Module):
    def __init__(self, features, hidden=32):
        super().__init__()
        self.actnorm = ActNorm(features)
        self.coupling = AffineCoupling(features, hidden)

    def forward(self, x):
        x, first = self.actnorm(x)
        x, second = self.coupling(x.flip(1))
        return x, first + second


def log_normal(h, x):
    """Log density of x where h holds the means and the logarithms of the deviations."""
    mean, log_sd = h.chunk(2, dim=1)
    return Normal(mean, log_sd.exp()).log_prob(x).sum(1)


class Model(nn.Module):
    def __init__(self, features=6, split=4, depth=3, num_classes=2):
        super().__init__()
        self.split = split
        self.level1 = nn.ModuleList(FlowStep(features) for _ in range(depth))
        self.level2 = nn.ModuleList(FlowStep(split) for _ in range(depth))
        self.split_prior = ZeroLinear(split, 2 * (features - split))
        self.top_prior = ZeroLinear(num_classes, 2 * split)
        self.classifier = ZeroLinear(split, num_classes)

    def forward(self, x, y):
        z, log_det = x, 0.0
        for flow in self.level1:
            z, term = flow(z)
            log_det = log_det + term
        z_0 = z
        z, rest = z[:, :self.split], z[:, self.split:]
        split_logp = log_normal(self.split_prior(z), rest)
        for flow in self.level2:
            z, term = flow(z)
            log_det = log_det + term
        logp = log_normal(self.top_prior(F.one_hot(y, 2).to(x.dtype)), z)
        return {"z_0": z_0, "z_1": z, "split_logp": split_logp, "logp": logp, "y_logits": self.classifier(z)}, log_det


def loss(model, x, y):
    out, log_det = model(x, y.long())
    objective = log_det + out["split_logp"] + out["logp"]
    bits_x = -objective.mean() / (math.log(2.0) * x.size(1))
    bits_y = F.cross_entropy(out["y_logits"], y.long()) / math.log(2.0)
    return bits_x + 0.1 * bits_y, {**out, "bits_x": bits_x, "bits_y": bits_y}
