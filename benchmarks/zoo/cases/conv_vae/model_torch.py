"""VAE with a convolutional encoder and decoder."""

import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self, latent_dim=6):
        super().__init__()
        # 4x4 at stride 2 on even sizes: SAME is one pixel on every side
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 8, 4, stride=2, padding=1),
            nn.LeakyReLU(0.3),
            nn.Conv2d(8, 16, 4, stride=2, padding=1),
            nn.LeakyReLU(0.3),
        )
        self.fc = nn.Linear(144, 32)
        self.fc_mu = nn.Linear(32, latent_dim)
        self.fc_logvar = nn.Linear(32, latent_dim)
        self.decoder_input = nn.Sequential(
            nn.Linear(latent_dim, 32), nn.LeakyReLU(0.3), nn.Linear(32, 144), nn.LeakyReLU(0.3)
        )
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(8, 1, 4, stride=2, padding=1),
        )

    def encode(self, x):
        x = F.leaky_relu(self.fc(self.encoder(x).flatten(1)), 0.3)
        return self.fc_mu(x), self.fc_logvar(x)

    def reparameterize(self, mu, logvar, eps):
        return mu + torch.exp(0.5 * logvar) * eps

    def decode(self, z):
        return self.decoder(self.decoder_input(z).view(-1, 16, 3, 3))

    def forward(self, x, eps):
        mu, logvar = self.encode(x)
        z = self.reparameterize(mu, logvar, eps)
        return mu, logvar, z, self.decode(z)


def loss(model, images, noise):
    images = images.permute(0, 3, 1, 2).contiguous()
    mu, logvar, z, logits = model(images, noise)
    reconstruction = F.binary_cross_entropy_with_logits(logits, images, reduction="sum") / images.size(0)
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(dim=1).mean()
    outputs = {"mean": mu, "log_var": logvar, "z": z, "logits": logits, "reconstruction": reconstruction, "kl": kl}
    return reconstruction + kl, outputs
