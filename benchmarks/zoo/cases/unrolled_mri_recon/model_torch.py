"""Unrolled network for undersampled images; one denoiser is applied in every cascade."""

import math

import torch
from torch import nn
from torch.nn import functional as F

GLOBAL_BATCH = 8


def dct(n):
    i = torch.arange(n, dtype=torch.float64)
    matrix = torch.cos(math.pi * i[:, None] * (2 * i[None, :] + 1) / (2 * n)) * math.sqrt(2 / n)
    matrix[0] /= math.sqrt(2)
    return matrix


class InstanceNorm(nn.Module):
    def __init__(self, channels, eps=1e-5):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(channels, 1, 1))
        self.beta = nn.Parameter(torch.zeros(channels, 1, 1))
        self.eps = eps

    def forward(self, x):
        var, mean = torch.var_mean(x, dim=(2, 3), keepdim=True, unbiased=False)
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta


class Denoiser(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1, bias=False),
            InstanceNorm(width),
            nn.LeakyReLU(0.2),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            InstanceNorm(width),
            nn.LeakyReLU(0.2),
            nn.Conv2d(width, 1, 3, padding=1),
        )

    def forward(self, x):
        return x + self.body(x)


class DataConsistency(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.raw_weight = nn.Parameter(torch.tensor(0.5))
        self.size = n

    def matrix(self, like):
        return dct(self.size).to(like)

    def analyse(self, x):
        d = self.matrix(x)
        return d @ x @ d.t()

    def synthesise(self, k):
        d = self.matrix(k)
        return d.t() @ k @ d

    def forward(self, x, measured, mask):
        weight = F.softplus(self.raw_weight)
        k = self.analyse(x)
        mixed = (k + weight * measured) / (1 + weight)
        return self.synthesise((1 - mask) * k + mask * mixed)


class Reconstruction(nn.Module):
    def __init__(self, size=12, cascades=3):
        super().__init__()
        self.denoise = Denoiser()
        self.consistency = DataConsistency(size)
        self.cascades = cascades

    def forward(self, spectrum, mask):
        zero_filled = self.consistency.synthesise(spectrum)
        peak = zero_filled.abs().amax(dim=(1, 2, 3), keepdim=True)
        x, measured = zero_filled / peak, spectrum / peak
        estimates = []
        for _ in range(self.cascades):
            x = self.consistency(self.denoise(x), measured, mask)
            estimates.append(x)
        return zero_filled, peak, estimates


def loss(model, spectrum, mask, target):
    spectrum = spectrum.permute(0, 3, 1, 2)
    mask = mask.permute(0, 3, 1, 2)
    target = target.permute(0, 3, 1, 2)
    zero_filled, peak, estimates = model(spectrum, mask)
    terms = []
    for weight, x in zip((0.25, 0.5, 1.0), estimates):
        error = torch.sqrt((x - target / peak) ** 2 + 1e-6)
        terms.append(weight * error.mean(dim=(1, 2, 3)).sum() / GLOBAL_BATCH)
    outputs = {f"cascade_{i}": x for i, x in enumerate(estimates)}
    return sum(terms), {"zero_filled": zero_filled, **outputs, "last": terms[-1]}
