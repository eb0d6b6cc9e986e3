"""Ladder variational autoencoder."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm1d(nn.BatchNorm1d):
    """Keeps the biased variance of a batch, as TensorFlow does."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=0, unbiased=False)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)


class Layer(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = nn.Linear(in_features, out_features, bias=False)
        self.bn = BatchNorm1d(out_features, eps=1e-3, momentum=0.1)

    def forward(self, x):
        return F.leaky_relu(self.bn(self.fc(x)), 0.1)


class Gaussian(nn.Module):
    """Mean and variance of a diagonal Gaussian."""

    def __init__(self, in_features, out_features):
        super().__init__()
        self.mean = nn.Linear(in_features, out_features)
        self.var = nn.Linear(in_features, out_features)

    def forward(self, h):
        return self.mean(h), F.softplus(self.var(h)) + 1e-3


class Merge(nn.Module):
    """Joins what comes from below and from above, each weighted by its precision."""

    def forward(self, m1, v1, m2, v2):
        p1, p2 = 1 / v1, 1 / v2
        var = 1 / (p1 + p2)
        return (m1 * p1 + m2 * p2) * var, var


class Sample(nn.Module):
    def forward(self, mean, var, noise):
        return mean + var.sqrt() * noise


class LadderVAE(nn.Module):
    def __init__(self, dim=24, hidden=(40, 24), latent=(12, 5)):
        super().__init__()
        self.up1 = Layer(dim, hidden[0])
        self.q1 = Gaussian(hidden[0], latent[0])
        self.up2 = Layer(hidden[0], hidden[1])
        self.q2 = Gaussian(hidden[1], latent[1])
        self.down2 = Layer(latent[1], hidden[1])
        self.p1 = Gaussian(hidden[1], latent[0])
        self.merge = Merge()
        self.sample = Sample()
        self.down1 = Layer(latent[0], hidden[0])
        self.x_mean = nn.Linear(hidden[0], dim)
        self.log_sigma = nn.Parameter(torch.full((dim,), -0.5))

    def forward(self, x, noise1, noise2):
        d1 = self.up1(x)
        d2 = self.up2(d1)
        q2 = self.q2(d2)
        z2 = self.sample(*q2, noise2)
        p1 = self.p1(self.down2(z2))
        q1 = self.merge(*self.q1(d1), *p1)
        z1 = self.sample(*q1, noise1)
        x_mean = self.x_mean(self.down1(z1))
        return {"d2": d2, "z2": z2, "z1": z1, "x_mean": x_mean}, q1, p1, q2, self.log_sigma


def kl_divergence(mq, vq, mp, vp):
    return 0.5 * (vp.log() - vq.log() + (vq + (mq - mp).pow(2)) / vp - 1)


def loss(model, x, noise1, noise2, warm_up):
    out, q1, p1, (mq2, vq2), log_sigma = model(x, noise1, noise2)
    log_px = -0.5 * ((x - out["x_mean"]) / log_sigma.exp()).pow(2) - log_sigma - 0.5 * math.log(2 * math.pi)
    reconstruction = log_px.sum(dim=1).mean()
    kl2 = kl_divergence(mq2, vq2, torch.zeros_like(mq2), torch.ones_like(vq2)).mean(dim=0).clamp(min=0.15).sum()
    kl1 = kl_divergence(*q1, *p1).mean(dim=0).sum()
    total = -reconstruction + 4.0 * warm_up.mean() * (kl1 + kl2)
    return total, {**out, "reconstruction": reconstruction, "kl1": kl1, "kl2": kl2}


class Adam(torch.optim.Optimizer):
    """Adam with TensorFlow's epsilon: it is added before the second moment is corrected for its bias."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(step=0, exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
                state["step"] += 1
                state["exp_avg"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                rate = group["lr"] * math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
                p.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt().add_(group["eps"]), value=-rate)


def optimizer(model):
    return Adam(model.parameters(), lr=0.002, betas=(0.9, 0.99), eps=1e-4)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
