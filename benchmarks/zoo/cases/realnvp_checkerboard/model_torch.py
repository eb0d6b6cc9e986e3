"""Real NVP in PyTorch: checkerboard couplings, squeeze, channel couplings."""
import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

CONSTRAINT = 0.9


def wn_conv(in_channels, out_channels, kernel_size):
    return weight_norm(nn.Conv2d(in_channels, out_channels, kernel_size, padding=kernel_size // 2))


class ResNet(nn.Module):
    def __init__(self, in_channels, out_channels, hidden=12):
        super().__init__()
        self.stem = wn_conv(in_channels, hidden, 3)
        self.conv1 = wn_conv(hidden, hidden, 3)
        self.conv2 = wn_conv(hidden, hidden, 3)
        self.head = wn_conv(hidden, out_channels, 1)

    def forward(self, x):
        x = self.stem(x)
        y = self.conv1(F.relu(x))
        y = self.conv2(F.relu(y))
        return self.head(F.relu(x + y))


class Coupling(nn.Module):
    """What both kinds of coupling share: the network, and the bounded logarithm of the scale."""

    def __init__(self, in_channels, channels):
        super().__init__()
        self.net = ResNet(in_channels, 2 * channels)
        self.rescale = nn.Parameter(torch.tensor(0.5))
        self.rescale_shift = nn.Parameter(torch.tensor(0.0))

    def shift_and_scale(self, x):
        shift, log_scale = self.net(F.relu(x)).chunk(2, dim=1)
        return shift, self.rescale * torch.tanh(log_scale) + self.rescale_shift


class CheckerboardCoupling(Coupling):
    def __init__(self, channels, size, parity):
        super().__init__(2 * channels + 1, channels)
        row = torch.arange(size)
        mask = (row[:, None] + row + parity) % 2
        self.register_buffer("mask", mask.to(torch.get_default_dtype()))

    def forward(self, x):
        given = x * self.mask
        mask = self.mask.expand(x.size(0), 1, -1, -1)
        shift, log_scale = self.shift_and_scale(torch.cat([given, -given, mask], dim=1))
        log_scale = log_scale * (1 - self.mask)
        z = (x + shift * (1 - self.mask)) * log_scale.exp()
        return z, log_scale.sum(dim=(1, 2, 3))


class ChannelCoupling(Coupling):
    def __init__(self, channels, change_second):
        super().__init__(channels, channels // 2)
        self.change_second = change_second

    def forward(self, x):
        first, second = x.chunk(2, dim=1)
        given, changed = (first, second) if self.change_second else (second, first)
        shift, log_scale = self.shift_and_scale(torch.cat([given, -given], dim=1))
        changed = (changed + shift) * log_scale.exp()
        pair = (given, changed) if self.change_second else (changed, given)
        return torch.cat(pair, dim=1), log_scale.sum(dim=(1, 2, 3))


class Model(nn.Module):
    def __init__(self, channels=3, size=8):
        super().__init__()
        self.checkerboard = nn.ModuleList(CheckerboardCoupling(channels, size, parity=k % 2) for k in range(3))
        self.channelwise = nn.ModuleList(ChannelCoupling(4 * channels, change_second=k == 0) for k in range(2))

    def forward(self, x):
        log_det = x.new_zeros(x.size(0))
        for coupling in self.checkerboard:
            x, change = coupling(x)
            log_det = log_det + change
        x = F.pixel_unshuffle(x, 2)
        for coupling in self.channelwise:
            x, change = coupling(x)
            log_det = log_det + change
        return x, log_det


def to_logits(images, noise):
    """Pictures with noise as logits, and the logarithm of the Jacobian's determinant."""
    x = ((images + noise) / 256).permute(0, 3, 1, 2)
    x = 0.5 + CONSTRAINT * (x - 0.5)
    logits = torch.logit(x)
    log_det = F.softplus(logits) + F.softplus(-logits) + math.log(CONSTRAINT)
    return logits, log_det.sum(dim=(1, 2, 3))


def loss(model, images, noise):
    x, log_det_logit = to_logits(images, noise)
    z, log_det = model(x)
    log_prior = -0.5 * (z.square() + math.log(2 * math.pi)).sum(dim=(1, 2, 3))
    log_likelihood = log_prior + log_det + log_det_logit
    bits = (8 - log_likelihood / (x[0].numel() * math.log(2))).mean()
    magnitudes = [p for name, p in model.named_parameters() if name.endswith("weight.original0")]
    penalty = 5e-3 * sum(g.square().sum() for g in magnitudes)
    return bits + penalty, {"z": z, "bits": bits}
