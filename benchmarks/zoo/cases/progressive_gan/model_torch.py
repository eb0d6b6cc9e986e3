"""Progressive GAN at 8x8, in the middle of fading in; weights are scaled at run time."""

import math

import torch
from torch import nn
from torch.nn import functional as F

FADE = 0.4  # how much the lower resolution still counts


class EqualConv2d(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, gain=math.sqrt(2)):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_channels, in_channels, kernel_size, kernel_size))
        self.bias = nn.Parameter(torch.zeros(out_channels))
        self.scale = gain / math.sqrt(in_channels * kernel_size ** 2)
        self.padding = kernel_size // 2

    def forward(self, x):
        return F.conv2d(x, self.weight * self.scale, self.bias, padding=self.padding)


class EqualLinear(nn.Module):
    def __init__(self, in_features, out_features, gain=math.sqrt(2), bias=True):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_features, in_features))
        self.bias = nn.Parameter(torch.zeros(out_features)) if bias else None
        self.scale = gain / math.sqrt(in_features)

    def forward(self, x):
        return F.linear(x, self.weight * self.scale, self.bias)


class PixelNorm(nn.Module):
    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(dim=1, keepdim=True) + 1e-8)


class MinibatchStd(nn.Module):
    def __init__(self, group_size=4):
        super().__init__()
        self.group_size = group_size

    def forward(self, x):
        n, c, h, w = x.shape
        groups = x.view(self.group_size, -1, c, h, w)
        std = torch.sqrt(groups.var(dim=0, unbiased=False) + 1e-8)
        average = std.mean(dim=(1, 2, 3)).view(-1, 1, 1, 1)
        return torch.cat([x, average.repeat(self.group_size, 1, h, w)], dim=1)


def leaky(x):
    return F.leaky_relu(x, 0.2)


class Generator(nn.Module):
    def __init__(self, latent_size=12, channels=12):
        super().__init__()
        self.channels = channels
        self.norm = PixelNorm()
        self.project = EqualLinear(latent_size, channels * 16, gain=math.sqrt(2) / 4, bias=False)
        self.project_bias = nn.Parameter(torch.zeros(channels))
        self.conv4 = EqualConv2d(channels, channels, 3)
        self.conv8a = EqualConv2d(channels, channels // 2, 3)
        self.conv8b = EqualConv2d(channels // 2, channels // 2, 3)
        self.to_rgb4 = EqualConv2d(channels, 3, 1, gain=1)
        self.to_rgb8 = EqualConv2d(channels // 2, 3, 1, gain=1)

    def forward(self, z):
        x = self.project(self.norm(z)).view(-1, self.channels, 4, 4) + self.project_bias.view(-1, 1, 1)
        x = self.norm(leaky(x))
        x = self.norm(leaky(self.conv4(x)))
        low = self.to_rgb4(x)
        x = F.interpolate(x, scale_factor=2, mode="nearest")
        x = self.norm(leaky(self.conv8a(x)))
        x = self.norm(leaky(self.conv8b(x)))
        return torch.lerp(self.to_rgb8(x), F.interpolate(low, scale_factor=2, mode="nearest"), FADE)


class Discriminator(nn.Module):
    def __init__(self, channels=12):
        super().__init__()
        self.from_rgb8 = EqualConv2d(3, channels // 2, 1)
        self.from_rgb4 = EqualConv2d(3, channels, 1)
        self.conv8a = EqualConv2d(channels // 2, channels // 2, 3)
        self.conv8b = EqualConv2d(channels // 2, channels, 3)
        self.minibatch_std = MinibatchStd()
        self.conv4 = EqualConv2d(channels + 1, channels, 3)
        self.hidden = EqualLinear(channels * 16, channels)
        self.score = EqualLinear(channels, 1, gain=1)

    def forward(self, images):
        x = leaky(self.from_rgb8(images))
        x = leaky(self.conv8a(x))
        x = F.avg_pool2d(leaky(self.conv8b(x)), 2)
        low = leaky(self.from_rgb4(F.avg_pool2d(images, 2)))
        x = torch.lerp(x, low, FADE)
        x = leaky(self.conv4(self.minibatch_std(x)))
        return self.score(leaky(self.hidden(x.flatten(1))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = Generator()
        self.discriminator = Discriminator()

    def forward(self, latents, reals, mixing):
        fakes = self.generator(latents)
        real_scores = self.discriminator(reals)
        fake_scores = self.discriminator(fakes)
        mixed = torch.lerp(reals, fakes.detach(), mixing).requires_grad_()
        return fakes, real_scores, fake_scores, mixed, self.discriminator(mixed)


def loss(model, latents, reals, mixing):
    reals = reals.permute(0, 3, 1, 2) / 127.5 - 1.0
    fakes, real_scores, fake_scores, mixed, mixed_scores = model(latents, reals, mixing)
    g_loss = -fake_scores.mean()

    grads = torch.autograd.grad(mixed_scores.sum(), mixed, create_graph=True)[0]
    norms = grads.square().sum(dim=(1, 2, 3)).sqrt()
    penalty = (norms - 1.0).square().mean()
    drift = real_scores.square().mean()
    d_loss = fake_scores.mean() - real_scores.mean() + 10.0 * penalty + 1e-3 * drift
    return g_loss, {"fakes": fakes, "real_scores": real_scores, "fake_scores": fake_scores, "d_loss": d_loss}
