import math

import torch
from torch import nn
from torch.nn import functional as F

BETA = 6.0


class View(nn.Module):
    def __init__(self, *shape):
        super().__init__()
        self.shape = shape

    def forward(self, x):
        return x.view(x.size(0), *self.shape)


class VAE(nn.Module):
    def __init__(self, z_dim=5, nc=1):
        super().__init__()
        self.z_dim = z_dim
        self.encoder = nn.Sequential(
            nn.Conv2d(nc, 8, 4, 2, 1),
            nn.ReLU(True),
            nn.Conv2d(8, 12, 4, 2, 1),
            nn.ReLU(True),
            nn.Conv2d(12, 16, 2, 2),
            nn.ReLU(True),
            nn.Flatten(),
            nn.Linear(16 * 2 * 2, 24),
            nn.ReLU(True),
            nn.Linear(24, 2 * z_dim),
        )
        self.decoder = nn.Sequential(
            nn.Linear(z_dim, 24),
            nn.ReLU(True),
            nn.Linear(24, 16 * 2 * 2),
            nn.ReLU(True),
            View(16, 2, 2),
            nn.ConvTranspose2d(16, 12, 4, 2, 1),
            nn.ReLU(True),
            nn.ConvTranspose2d(12, 8, 4, 2, 1),
            nn.ReLU(True),
            nn.ConvTranspose2d(8, nc, 4, 2, 1),
        )
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Conv2d, nn.ConvTranspose2d)):
                nn.init.xavier_uniform_(m.weight)
                nn.init.zeros_(m.bias)

    def forward(self, x, noise):
        mu, logvar = self.encoder(x).chunk(2, dim=1)
        z = mu + noise * (logvar / 2).exp()
        return self.decoder(z), mu, logvar, z


def log_density_gaussian(x, mu, logvar):
    return -0.5 * (math.log(2 * math.pi) + logvar + (x - mu).pow(2) * torch.exp(-logvar))


def total_correlation(z, mu, logvar):
    pairs = log_density_gaussian(z[:, None], mu[None], logvar[None])
    log_qz = torch.logsumexp(pairs.sum(2), dim=1)
    log_prod_qzi = torch.logsumexp(pairs, dim=1).sum(1)
    return (log_qz - log_prod_qzi).mean()


def loss(model, images, noise):
    x = images.permute(0, 3, 1, 2).contiguous()
    logits, mu, logvar, z = model(x, noise)
    reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / x.size(0)
    kl = (-0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1)).mean()
    tc = total_correlation(z, mu, logvar)
    total = reconstruction + kl + (BETA - 1) * tc
    return total, {"z_mean": mu, "z_logvar": logvar, "logits": logits, "reconstruction": reconstruction, "kl": kl, "tc": tc}
