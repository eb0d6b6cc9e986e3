"""Residual vector quantisation of waveforms."""

import torch
from torch import nn
from torch.nn import functional as F


class DownConv(nn.Conv1d):
    """Halves the length; padded as TensorFlow's SAME for five taps: one in front, two behind."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs, 5, stride=2)

    def forward(self, x):
        return super().forward(F.pad(x, (1, 2)))


class ResBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv1d(channels, channels, 3, padding=2, dilation=2)
        self.conv2 = nn.Conv1d(channels, channels, 1)

    def forward(self, x):
        return x + self.conv2(F.elu(self.conv1(F.elu(x))))


class Codebook(nn.Module):
    def __init__(self, size, dim, beta=0.25):
        super().__init__()
        self.beta = beta
        self.codes = nn.Embedding(size, dim)
        nn.init.normal_(self.codes.weight, std=0.3)

    def forward(self, z):
        """z is [batch, steps, dim]; returns the nearest codes, as they are, and the loss."""
        table = self.codes.weight
        distances = table.pow(2).sum(1) - 2 * z @ table.t()  # up to the length of z, which all have
        chosen = self.codes(distances.argmin(-1))
        codebook_loss = F.mse_loss(chosen, z.detach())
        commitment_loss = F.mse_loss(z, chosen.detach())
        return chosen, codebook_loss + self.beta * commitment_loss


class ResidualQuantizer(nn.Module):
    def __init__(self, stages=2, size=12, dim=8):
        super().__init__()
        self.stages = nn.ModuleList(Codebook(size, dim) for _ in range(stages))

    def forward(self, z):
        rest, total, losses = z, torch.zeros_like(z), []
        for codebook in self.stages:
            chosen, stage_loss = codebook(rest)
            losses.append(stage_loss)
            rest = rest - chosen.detach()
            total = total + chosen
        return z + (total - z).detach(), sum(losses)


class Codec(nn.Module):
    def __init__(self, hidden=16, dim=8):
        super().__init__()
        self.encoder = nn.Sequential(
            DownConv(1, hidden), nn.ELU(), DownConv(hidden, hidden), ResBlock(hidden), nn.ELU(),
            nn.Conv1d(hidden, dim, 3, padding=1),
        )
        self.quantizer = ResidualQuantizer(dim=dim)
        self.decoder = nn.Sequential(
            nn.Conv1d(dim, hidden, 3, padding=1), ResBlock(hidden), nn.ELU(),
            nn.ConvTranspose1d(hidden, hidden, 4, stride=2, padding=1), nn.ELU(),
            nn.ConvTranspose1d(hidden, 1, 4, stride=2, padding=1),
        )

    def forward(self, waves):
        latent = self.encoder(waves).transpose(1, 2)
        codes, vq_loss = self.quantizer(latent)
        return latent, codes, self.decoder(codes.transpose(1, 2)), vq_loss


def pre_emphasis(x, coefficient=0.97):
    return x[..., 1:] - coefficient * x[..., :-1]


def loss(model, waves):
    waves = waves.transpose(1, 2)
    latent, codes, output, vq_loss = model(waves)
    recon = F.mse_loss(output, waves)
    emphasis = F.l1_loss(pre_emphasis(output), pre_emphasis(waves))
    outputs = {"latent": latent, "codes": codes, "output": output, "recon": recon, "emphasis": emphasis,
               "vq_loss": vq_loss}
    return recon + 0.5 * emphasis + vq_loss, outputs


@torch.no_grad()
def clip_gradients(parameters, limit):
    """Scales all gradients so that their global norm is at most the limit, without torch's epsilon."""
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.stack([g.norm() for g in grads]).norm()
    factor = limit / norm.clamp(min=limit)
    for g in grads:
        g.mul_(factor)


def step(model, optimizer, scheduler, waves):
    optimizer.zero_grad()
    total, outputs = loss(model, waves)
    total.backward()
    clip_gradients(model.parameters(), 0.3)
    optimizer.step()
    return total, outputs
