"""BEGAN in torch: generator, auto-encoding discriminator, and the balance k as a buffer."""

import torch
from torch import nn
from torch.nn import functional as F


class Decoder(nn.Module):
    """From a code to a picture; also the generator."""

    def __init__(self, code=8, hidden=6):
        super().__init__()
        self.hidden = hidden
        self.project = nn.Linear(code, hidden * 4 * 4)
        self.blocks = nn.ModuleList()
        for _ in range(3):
            self.blocks.append(
                nn.Sequential(
                    nn.Conv2d(hidden, hidden, 3, padding=1), nn.ELU(), nn.Conv2d(hidden, hidden, 3, padding=1), nn.ELU()
                )
            )
        self.to_rgb = nn.Conv2d(hidden, 3, 3, padding=1)

    def forward(self, code):
        x = self.project(code).view(-1, self.hidden, 4, 4)
        for i, block in enumerate(self.blocks):
            if i > 0:
                x = F.interpolate(x, scale_factor=2, mode="nearest")
            x = block(x)
        return self.to_rgb(x)


class Downsample(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, stride=2)

    def forward(self, x):
        return F.elu(self.conv(F.pad(x, (0, 1, 0, 1))))


class Encoder(nn.Module):
    def __init__(self, code=8, hidden=6):
        super().__init__()
        layers = [nn.Conv2d(3, hidden, 3, padding=1), nn.ELU()]
        width = hidden
        for level in (1, 2, 3):
            layers += [nn.Conv2d(width, hidden * level, 3, padding=1), nn.ELU()]
            width = hidden * level
            layers += [nn.Conv2d(width, width, 3, padding=1), nn.ELU()]
            if level < 3:
                layers.append(Downsample(width))
        self.features = nn.Sequential(*layers)
        self.to_code = nn.Linear(width * 4 * 4, code)

    def forward(self, x):
        return self.to_code(self.features(x).flatten(1))


class BEGAN(nn.Module):
    def __init__(self, gamma=0.5, lambda_k=0.05):
        super().__init__()
        self.gamma = gamma
        self.lambda_k = lambda_k
        self.generator = Decoder()
        self.encoder = Encoder()
        self.decoder = Decoder()
        self.register_buffer("k", torch.tensor(0.1))

    def reconstruct(self, x):
        return self.decoder(self.encoder(x))

    def forward(self, real, z):
        fake = self.generator(z)

        # discriminator: both halves in one pass, no gradient to the generator
        both = torch.cat([fake.detach(), real])
        rec_fake, rec_real = self.reconstruct(both).chunk(2)
        d_loss_real = F.l1_loss(rec_real, real)
        d_loss_fake = F.l1_loss(rec_fake, fake.detach())

        # generator
        g_loss = F.l1_loss(self.reconstruct(fake), fake)

        k = self.k.clone()
        d_loss = d_loss_real - k * d_loss_fake
        if self.training:
            with torch.no_grad():
                self.k.add_(self.lambda_k * (self.gamma * d_loss_real - g_loss)).clamp_(0, 1)
        return d_loss, g_loss, fake, rec_fake, rec_real


def loss(model, pixels, z):
    real = pixels.permute(0, 3, 1, 2) / 127.5 - 1.0
    d_loss, g_loss, fake, rec_fake, rec_real = model(real, z)
    pictures = ((fake + 1) * 127.5).clamp(0, 255)
    return d_loss, {"g_loss": g_loss, "G": pictures, "AE_G": rec_fake, "AE_x": rec_real}
