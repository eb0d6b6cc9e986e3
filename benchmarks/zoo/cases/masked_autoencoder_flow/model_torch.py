"""A VAE with an inverse autoregressive flow for its posterior (Kingma et al. 2016), trained with free bits."""

import math

import torch
from torch import nn
from torch.nn import functional as F


def degrees(features, dim):
    return torch.arange(features) % dim


class MaskedLinear(nn.Module):
    """Weight-normalised linear layer that only looks at inputs of lower (or, unless strict, equal) degree."""

    def __init__(self, in_features, out_features, dim, strict):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_features, in_features) * 0.2)
        self.log_norm = nn.Parameter(torch.zeros(out_features))
        self.bias = nn.Parameter(torch.zeros(out_features))
        seen, of = degrees(in_features, dim)[None, :], degrees(out_features, dim)[:, None]
        self.register_buffer("mask", ((seen < of) if strict else (seen <= of)).to(self.weight.dtype))

    def forward(self, x):
        direction = F.normalize(self.weight * self.mask, dim=1, eps=1e-6)
        return F.linear(x, self.log_norm.exp()[:, None] * direction, self.bias)


class MADE(nn.Module):
    def __init__(self, dim, hidden, context):
        super().__init__()
        self.input = MaskedLinear(dim, hidden, dim, strict=False)
        self.context = nn.Linear(context, hidden)
        self.mean = MaskedLinear(hidden, dim, dim, strict=True)
        self.scale = MaskedLinear(hidden, dim, dim, strict=True)

    def forward(self, z, context):
        h = F.elu(self.input(z) + self.context(context))
        return self.mean(h), self.scale(h)


class Flow(nn.Module):
    def __init__(self, dim, hidden, context):
        super().__init__()
        self.made = MADE(dim, hidden, context)

    def forward(self, z, log_q, context):
        mean, scale = self.made(z, context)
        scale = scale + 2.0
        sigma = torch.sigmoid(scale)
        return sigma * z + (1 - sigma) * mean, log_q - F.logsigmoid(scale)


class Model(nn.Module):
    def __init__(self, pixels=36, hidden=24, latent=6, context=8, num_flows=2):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(pixels, hidden), nn.ELU())
        self.to_mean = nn.Linear(hidden, latent)
        self.to_log_std = nn.Linear(hidden, latent)
        self.to_context = nn.Sequential(nn.Linear(hidden, context), nn.ELU())
        self.flows = nn.ModuleList(Flow(latent, 18, context) for _ in range(num_flows))
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.ELU(), nn.Linear(hidden, pixels))

    def forward(self, x, noise):
        h = self.encoder(x)
        log_std = self.to_log_std(h)
        z_0 = self.to_mean(h) + log_std.exp() * noise
        log_q = -0.5 * (math.log(2 * math.pi) + noise ** 2) - log_std
        context = self.to_context(h)
        z = z_0
        for i, flow in enumerate(self.flows):
            if i > 0:
                z = z.flip(1)
                log_q = log_q.flip(1)
            z, log_q = flow(z, log_q, context)
        return z_0, z, log_q, self.decoder(z)


def loss(model, images, noise, free_bits=0.25):
    x = images.flatten(1)
    z_0, z, log_q, logits = model(x, noise)
    reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(1)
    log_p = -0.5 * (math.log(2 * math.pi) + z ** 2)
    kl = log_q - log_p
    kl_objective = kl.mean(0).clamp(min=free_bits).sum()
    return reconstruction.mean() + kl_objective, {"z_0": z_0, "z": z, "logits": logits, "kl": kl.sum(1).mean()}


class Adam(torch.optim.Optimizer):
    """Adam as in the second form of the paper, epsilon is added before the bias correction."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p)
                    state["exp_avg_sq"] = torch.zeros_like(p)
                state["step"] += 1
                state["exp_avg"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                lr = group["lr"] * math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
                p.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt().add_(group["eps"]), value=-lr)


def optimizer(model):
    return Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.99), eps=1e-5)
