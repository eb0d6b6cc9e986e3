"""Conv-TasNet (time-domain speech separation) for three speakers."""

from itertools import permutations

import torch
from torch import nn


def global_norm(channels):
    return nn.GroupNorm(1, channels, eps=1e-8)


class Encoder(nn.Module):
    def __init__(self, n_filters, kernel_size):
        super().__init__()
        self.conv = nn.Conv1d(1, n_filters, kernel_size, stride=kernel_size // 2, bias=False)

    def forward(self, mixture):
        return torch.relu(self.conv(mixture.unsqueeze(1)))


class Block(nn.Module):
    def __init__(self, channels, hidden, skip_channels, kernel_size, dilation, no_residual=False):
        super().__init__()
        self.in_conv = nn.Conv1d(channels, hidden, 1)
        self.act1 = nn.PReLU()
        self.norm1 = global_norm(hidden)
        self.depth_conv = nn.Conv1d(
            hidden, hidden, kernel_size, padding=dilation * (kernel_size - 1) // 2, dilation=dilation, groups=hidden
        )
        self.act2 = nn.PReLU()
        self.norm2 = nn.GroupNorm(1, hidden, eps=1e-8)
        self.res_conv = None if no_residual else nn.Conv1d(hidden, channels, 1)
        self.skip_conv = nn.Conv1d(hidden, skip_channels, 1)

    def forward(self, x):
        y = self.norm1(self.act1(self.in_conv(x)))
        y = self.norm2(self.act2(self.depth_conv(y)))
        if self.res_conv is not None:
            x = x + self.res_conv(y)
        return x, self.skip_conv(y)


class Separator(nn.Module):
    def __init__(self, n_filters, channels, hidden, skip_channels, kernel_size, n_blocks, n_repeats, n_speakers):
        super().__init__()
        self.n_speakers = n_speakers
        self.norm = nn.LayerNorm(n_filters, eps=1e-8)
        self.bottleneck = nn.Conv1d(n_filters, channels, 1)
        dilations = [2**i for _ in range(n_repeats) for i in range(n_blocks)]
        # nobody reads the residual path of the last block
        self.blocks = nn.ModuleList(
            Block(channels, hidden, skip_channels, kernel_size, dilation, no_residual=i == len(dilations) - 1)
            for i, dilation in enumerate(dilations)
        )
        self.act = nn.PReLU()
        self.mask_conv = nn.Conv1d(skip_channels, n_speakers * n_filters, 1)

    def forward(self, features):
        x = self.bottleneck(self.norm(features.transpose(1, 2)).transpose(1, 2))
        skips = 0
        for block in self.blocks:
            x, skip = block(x)
            skips = skips + skip
        masks = self.mask_conv(self.act(skips)).unflatten(1, (self.n_speakers, -1))
        return masks.softmax(dim=1)


class Decoder(nn.Module):
    def __init__(self, n_filters, kernel_size):
        super().__init__()
        self.conv = nn.ConvTranspose1d(n_filters, 1, kernel_size, stride=kernel_size // 2, bias=False)

    def forward(self, features, masks):
        masked = features.unsqueeze(1) * masks
        batch, speakers = masked.shape[:2]
        return self.conv(masked.flatten(0, 1)).view(batch, speakers, -1)


class Model(nn.Module):
    def __init__(self, n_filters=26, filter_length=8, channels=12, hidden=20, skip_channels=14, n_blocks=3, n_speakers=3):
        super().__init__()
        self.encoder = Encoder(n_filters, filter_length)
        self.separator = Separator(n_filters, channels, hidden, skip_channels, 3, n_blocks, 1, n_speakers)
        self.decoder = Decoder(n_filters, filter_length)

    def forward(self, mixture):
        features = self.encoder(mixture)
        masks = self.separator(features)
        return features, self.decoder(features, masks)


def pairwise_si_snr(estimates, sources, lengths, eps=1e-8):
    """The SI-SNR in dB of every estimate against every source, [batch, estimate, source]."""
    steps = torch.arange(sources.size(-1), device=sources.device)
    mask = (steps < lengths.unsqueeze(1)).to(sources.dtype).unsqueeze(1)
    count = lengths.to(sources.dtype).view(-1, 1, 1)
    estimates = estimates * mask
    sources = (sources - sources.sum(-1, keepdim=True) / count) * mask
    estimates = (estimates - estimates.sum(-1, keepdim=True) / count) * mask

    target, estimate = sources.unsqueeze(1), estimates.unsqueeze(2)
    dot = (estimate * target).sum(-1, keepdim=True)
    projection = dot * target / (target.pow(2).sum(-1, keepdim=True) + eps)
    noise = estimate - projection
    ratio = projection.pow(2).sum(-1) / (noise.pow(2).sum(-1) + eps)
    return 10 * torch.log10(ratio + eps)


def loss(model, mixture, sources, lengths):
    features, estimates = model(mixture)
    snr = pairwise_si_snr(estimates, sources, lengths)
    n_speakers = sources.size(1)
    speakers = torch.arange(n_speakers, device=snr.device)
    orders = torch.tensor(list(permutations(range(n_speakers))), device=snr.device)
    best = snr[:, speakers, orders].mean(-1).max(dim=1).values
    return -best.mean(), {
        "mixture_w": features.transpose(1, 2),
        "estimates": estimates,
        "pair_wise_si_snr": snr,
    }
