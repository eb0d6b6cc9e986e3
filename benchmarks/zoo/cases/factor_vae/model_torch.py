"""Beta-VAE with a discretised logistic likelihood and KL annealing."""

import torch
from torch import nn

LEVELS = 32
BETA = 4.0
WARMUP = 6
NEGATIVE_SLOPE = 0.2


class Encoder(nn.Module):
    def __init__(self, latent_dim):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 12, 4, stride=2, padding=1),
            nn.LeakyReLU(NEGATIVE_SLOPE),
            nn.Conv2d(12, 20, 4, stride=2, padding=1),
            nn.LeakyReLU(NEGATIVE_SLOPE),
            nn.Flatten(),
            nn.Linear(20 * 4 * 3, 30),
            nn.LeakyReLU(NEGATIVE_SLOPE),
        )
        self.mu = nn.Linear(30, latent_dim)
        self.logvar = nn.Linear(30, latent_dim)

    def forward(self, x):
        h = self.features(x)
        return self.mu(h), self.logvar(h)


class Decoder(nn.Module):
    def __init__(self, latent_dim):
        super().__init__()
        self.fc = nn.Sequential(
            nn.Linear(latent_dim, 30),
            nn.LeakyReLU(NEGATIVE_SLOPE),
            nn.Linear(30, 20 * 4 * 3),
            nn.LeakyReLU(NEGATIVE_SLOPE),
        )
        self.deconv = nn.Sequential(
            nn.ConvTranspose2d(20, 12, 4, stride=2, padding=1),
            nn.LeakyReLU(NEGATIVE_SLOPE),
            nn.ConvTranspose2d(12, 3, 4, stride=2, padding=1),
        )
        self.log_scale = nn.Parameter(torch.full((3,), -1.0))

    def forward(self, z):
        h = self.fc(z).unflatten(1, (20, 4, 3))
        return torch.sigmoid(self.deconv(h)) - 0.5, self.log_scale.view(1, 3, 1, 1)


class Model(nn.Module):
    def __init__(self, latent_dim=7):
        super().__init__()
        self.encoder = Encoder(latent_dim)
        self.decoder = Decoder(latent_dim)

    def forward(self, x, noise):
        mu, logvar = self.encoder(x)
        std = torch.exp(0.5 * logvar)
        z = mu + std * noise
        mean, log_scale = self.decoder(z)
        return mu, logvar, z, mean, log_scale


def discretized_logistic_nll(x, mean, log_scale, bin_size):
    """x is the lower edge of its bin."""
    inverse = torch.exp(-log_scale)
    lower = (x - mean) * inverse
    upper = lower + bin_size * inverse
    return -torch.log(torch.sigmoid(upper) - torch.sigmoid(lower) + 1e-7).sum(dim=(1, 2, 3))


def loss(model, images, noise, step):
    levels = images.permute(0, 3, 1, 2).contiguous()
    mu, logvar, z, mean, log_scale = model((levels + 0.5) / LEVELS - 0.5, noise)
    nll = discretized_logistic_nll(levels / LEVELS - 0.5, mean, log_scale, 1.0 / LEVELS)
    kl = -0.5 * (1 + logvar - mu.square() - logvar.exp()).sum(dim=1)
    weight = BETA * torch.clamp((step + 1) / WARMUP, max=1.0)
    total = (nll + weight * kl).mean()
    return total, {"z_mean": mu, "z_logvar": logvar, "z": z, "reconstructions": mean,
                   "reconstruction_loss": nll.mean(), "kl_loss": kl.mean()}


class Adam(torch.optim.Optimizer):
    """Adam with epsilon where TensorFlow has it, outside of the bias correction."""

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
                correction = (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
                p.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt() + group["eps"], value=-group["lr"] * correction)


def optimizer(model):
    return Adam(model.parameters(), lr=1e-3)
