"""An energy-based GAN with a pulling-away term, in PyTorch."""
import torch
from torch import nn
from torch.nn import functional as F

MARGIN = 4.0


class UpConv(nn.ConvTranspose2d):
    """Doubles the size with a 5x5 kernel. Of the three surplus rows one is cut off at the top and two at the bottom."""

    def __init__(self, in_channels, out_channels):
        super().__init__(in_channels, out_channels, 5, stride=2, padding=1)

    def forward(self, x):
        return super().forward(x)[..., :-1, :-1]


class Generator(nn.Module):
    def __init__(self, z_dim=16, dim=12):
        super().__init__()
        self.fc = nn.Linear(z_dim, 2 * dim * 4 * 4)
        self.up1 = UpConv(2 * dim, dim)
        self.up2 = UpConv(dim, 1)

    def forward(self, z):
        x = F.relu(self.fc(z)).unflatten(1, (-1, 4, 4))
        x = F.relu(self.up1(x))
        return torch.tanh(self.up2(x))


class AutoEncoder(nn.Module):
    def __init__(self, dim=8, code_dim=24):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, dim, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.Conv2d(dim, 2 * dim, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(2 * dim * 4 * 4, code_dim))
        self.decoder = nn.Sequential(
            nn.Linear(code_dim, 2 * dim * 4 * 4), nn.LeakyReLU(0.2), nn.Unflatten(1, (2 * dim, 4, 4)),
            nn.ConvTranspose2d(2 * dim, dim, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.ConvTranspose2d(dim, 1, 4, stride=2, padding=1), nn.Tanh())

    def forward(self, x):
        code = self.encoder(x)
        return code, self.decoder(code)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = Generator()
        self.discriminator = AutoEncoder()
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.trunc_normal_(p, std=0.08)
            else:
                nn.init.zeros_(p)

    def forward(self, real, z):
        fake = self.generator(z)
        return fake, self.discriminator(real), self.discriminator(fake)


def energy(pictures, decoded):
    return torch.linalg.vector_norm(decoded - pictures) / len(pictures)


def pulling_away(code):
    cosine = F.cosine_similarity(code[:, None], code[None], dim=2)
    n = len(code)
    return (cosine.sum() - n) / (n * (n - 1))


def loss(model, images, z):
    real = images.permute(0, 3, 1, 2) / 127.5 - 1
    fake, (_, decoded_real), (code_fake, decoded_fake) = model(real, z)
    energy_real, energy_fake = energy(real, decoded_real), energy(fake, decoded_fake)
    d_loss = energy_real + F.relu(MARGIN - energy_fake)
    pt_loss = pulling_away(code_fake)
    g_loss = energy_fake + 0.1 * pt_loss
    return g_loss, {"d_loss": d_loss, "pt_loss": pt_loss, "fake": fake, "decoded_real": decoded_real, "decoded_fake": decoded_fake}
