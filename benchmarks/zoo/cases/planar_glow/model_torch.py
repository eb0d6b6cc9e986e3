"""Glow: a multi-scale normalising flow, which returns its latents and the log likelihood of what it is given."""

import math

import torch
from torch import nn
from torch.nn import functional as F


def gaussian_log_prob(x, mean, log_std):
    density = -0.5 * (math.log(2 * math.pi) + 2 * log_std + (x - mean) ** 2 / torch.exp(2 * log_std))
    return density.sum(dim=(1, 2, 3))


class ActNorm(nn.Module):
    def __init__(self, channels, log_scale_factor=3.0):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1, channels, 1, 1))
        self.logs = nn.Parameter(torch.zeros(1, channels, 1, 1))
        self.log_scale_factor = log_scale_factor

    def forward(self, x):
        height, width = x.shape[2:]
        logs = self.logs * self.log_scale_factor
        return (x + self.bias) * logs.exp(), height * width * logs.sum()


class InvertibleConv1x1(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.linalg.qr(torch.randn(channels, channels))[0])

    def forward(self, x):
        height, width = x.shape[2:]
        logdet = torch.linalg.slogdet(self.weight)[1]
        return F.conv2d(x, self.weight[:, :, None, None]), logdet * height * width


class ZeroConv2d(nn.Module):
    def __init__(self, in_channels, out_channels, log_scale_factor=3.0):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, padding=1)
        nn.init.zeros_(self.conv.weight)
        nn.init.zeros_(self.conv.bias)
        self.logs = nn.Parameter(torch.zeros(out_channels, 1, 1))
        self.log_scale_factor = log_scale_factor

    def forward(self, x):
        return self.conv(x) * torch.exp(self.logs * self.log_scale_factor)


class AffineCoupling(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(channels // 2, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, 1),
            nn.ReLU(),
            ZeroConv2d(width, channels),
        )

    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        h = self.net(a)
        # shifts and scales take turns
        shift, scale = h[:, 0::2], h[:, 1::2]
        scale = torch.sigmoid(scale + 2.0)
        return torch.cat([a, (b + shift) * scale], dim=1), scale.log().sum(dim=(1, 2, 3))


class FlowStep(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.actnorm = ActNorm(channels)
        self.invconv = InvertibleConv1x1(channels)
        self.coupling = AffineCoupling(channels, width)

    def forward(self, x):
        x, logdet = self.actnorm(x)
        x, more = self.invconv(x)
        x, most = self.coupling(x)
        return x, logdet + more + most


class Split(nn.Module):
    """Half of the channels leave the flow; their prior depends on the other half."""

    def __init__(self, channels):
        super().__init__()
        self.prior = ZeroConv2d(channels // 2, channels)

    def forward(self, x):
        kept, left = x.chunk(2, dim=1)
        prior = self.prior(kept)
        mean, log_std = prior[:, 0::2], prior[:, 1::2]
        return kept, gaussian_log_prob(left, mean, log_std)


class Glow(nn.Module):
    def __init__(self, in_channels=3, levels=2, depth=2, width=16):
        super().__init__()
        self.squeeze = nn.PixelUnshuffle(2)
        self.levels = nn.ModuleList()
        self.splits = nn.ModuleList()
        channels = in_channels
        for level in range(levels):
            channels *= 4
            self.levels.append(nn.ModuleList(FlowStep(channels, width) for _ in range(depth)))
            if level < levels - 1:
                self.splits.append(Split(channels))
                channels //= 2

    def forward(self, x):
        log_prob = x.new_zeros(x.size(0))
        latents = []
        for level, steps in enumerate(self.levels):
            x = self.squeeze(x)
            for step in steps:
                x, logdet = step(x)
                log_prob = log_prob + logdet
            if level < len(self.splits):
                x, log_p = self.splits[level](x)
                log_prob = log_prob + log_p
            latents.append(x)
        zeros = torch.zeros_like(x)
        return latents, log_prob + gaussian_log_prob(x, zeros, zeros)


def loss(model, images, n_bins=256):
    images = images.permute(0, 3, 1, 2).contiguous()
    n_dims = images[0].numel()
    latents, log_prob = model(images)
    bits = -(log_prob - math.log(n_bins) * n_dims) / (math.log(2) * n_dims)
    outputs = {"z_%d" % i: z for i, z in enumerate(latents)}
    outputs["bits_x"] = bits
    return bits.mean(), outputs


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)


def rate(step):
    return 0.02 / (1 + 0.5 * step)
