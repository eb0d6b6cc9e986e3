"""StyleGAN2 for tiny pictures: modulated convolutions by grouped ones, resampling with a binomial kernel, R1 on the real pictures."""
import math

import torch
from torch import nn
from torch.nn import functional as F

R1_GAMMA = 5.0
CHANNELS = {4: 12, 8: 10, 16: 8}


def make_kernel(taps):
    taps = torch.tensor(taps, dtype=torch.float64)
    kernel = torch.outer(taps, taps)
    return kernel / kernel.sum()


def fused_leaky_relu(x, bias, negative_slope=0.2):
    bias = bias.view(1, -1, *[1] * (x.dim() - 2))
    return F.leaky_relu(x + bias, negative_slope) * math.sqrt(2)


class PixelNorm(nn.Module):
    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(dim=1, keepdim=True) + 1e-8)


class Upsample(nn.Module):
    def __init__(self, taps=(1, 3, 3, 1), factor=2):
        super().__init__()
        self.register_buffer("kernel", make_kernel(taps) * factor ** 2, persistent=False)
        self.factor = factor

    def forward(self, x):
        channels = x.size(1)
        kernel = self.kernel.to(x.dtype).expand(channels, 1, -1, -1)
        return F.conv_transpose2d(x, kernel, stride=self.factor, padding=1, groups=channels)


class Blur(nn.Module):
    def __init__(self, pad, taps=(1, 3, 3, 1)):
        super().__init__()
        self.register_buffer("kernel", make_kernel(taps), persistent=False)
        self.pad = pad

    def forward(self, x):
        channels = x.size(1)
        kernel = self.kernel.to(x.dtype).expand(channels, 1, -1, -1)
        return F.conv2d(F.pad(x, self.pad * 2), kernel, groups=channels)


class EqualLinear(nn.Module):
    def __init__(self, in_dim, out_dim, lr_mul=1.0, activation=False):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_dim, in_dim) / lr_mul)
        self.bias = nn.Parameter(torch.zeros(out_dim))
        self.scale, self.lr_mul, self.activation = lr_mul / math.sqrt(in_dim), lr_mul, activation

    def forward(self, x):
        if self.activation:
            return fused_leaky_relu(F.linear(x, self.weight * self.scale), self.bias * self.lr_mul)
        return F.linear(x, self.weight * self.scale, bias=self.bias * self.lr_mul)


class EqualConv2d(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_channels, in_channels, kernel_size, kernel_size))
        self.scale = 1 / math.sqrt(in_channels * kernel_size ** 2)
        self.stride, self.padding = stride, padding

    def forward(self, x):
        return F.conv2d(x, self.weight * self.scale, stride=self.stride, padding=self.padding)


class FusedLeakyReLU(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        return fused_leaky_relu(x, self.bias)


class ModulatedConv2d(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, style_dim, demodulate=True, upsample=False):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1, out_channels, in_channels, kernel_size, kernel_size))
        self.scale = 1 / math.sqrt(in_channels * kernel_size ** 2)
        self.padding = kernel_size // 2
        self.modulation = EqualLinear(style_dim, in_channels)
        self.demodulate = demodulate
        self.up = Upsample() if upsample else nn.Identity()

    def forward(self, x, style):
        batch = x.size(0)
        style = self.modulation(style) + 1.0
        weight = self.scale * self.weight * style.view(batch, 1, -1, 1, 1)
        if self.demodulate:
            demod = torch.rsqrt(weight.pow(2).sum([2, 3, 4]) + 1e-8)
            weight = weight * demod.view(batch, -1, 1, 1, 1)
        x = self.up(x)
        height, width = x.shape[2:]
        out = F.conv2d(x.reshape(1, -1, height, width), weight.flatten(0, 1), padding=self.padding, groups=batch)
        return out.view(batch, -1, height, width)


class NoiseInjection(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    def forward(self, image, noise):
        return image + self.weight * noise


class StyledConv(nn.Module):
    def __init__(self, in_channels, out_channels, style_dim, upsample=False):
        super().__init__()
        self.conv = ModulatedConv2d(in_channels, out_channels, 3, style_dim, upsample=upsample)
        self.noise = NoiseInjection()
        self.activate = FusedLeakyReLU(out_channels)

    def forward(self, x, style, noise):
        return self.activate(self.noise(self.conv(x, style), noise))


class ToRGB(nn.Module):
    def __init__(self, channels, style_dim, upsample=True):
        super().__init__()
        if upsample:
            self.upsample = Upsample()
        self.conv = ModulatedConv2d(channels, 3, 1, style_dim, demodulate=False)
        self.bias = nn.Parameter(torch.zeros(1, 3, 1, 1))

    def forward(self, x, style, skip=None):
        out = self.conv(x, style) + self.bias
        return out if skip is None else out + self.upsample(skip)


class Generator(nn.Module):
    def __init__(self, style_dim=12, n_mlp=2, lr_mlp=0.1):
        super().__init__()
        self.style = nn.Sequential(
            PixelNorm(), *(EqualLinear(style_dim, style_dim, lr_mul=lr_mlp, activation=True) for _ in range(n_mlp)))
        self.input = nn.Parameter(torch.randn(1, CHANNELS[4], 4, 4))
        self.conv1 = StyledConv(CHANNELS[4], CHANNELS[4], style_dim)
        self.to_rgb1 = ToRGB(CHANNELS[4], style_dim, upsample=False)
        self.convs, self.to_rgbs = nn.ModuleList(), nn.ModuleList()
        for size in (8, 16):
            self.convs.append(StyledConv(CHANNELS[size // 2], CHANNELS[size], style_dim, upsample=True))
            self.convs.append(StyledConv(CHANNELS[size], CHANNELS[size], style_dim))
            self.to_rgbs.append(ToRGB(CHANNELS[size], style_dim))

    def forward(self, z, noises):
        latent = self.style(z)
        out = self.conv1(self.input.repeat(z.size(0), 1, 1, 1), latent, noises[0])
        skip = self.to_rgb1(out, latent)
        for first, second, noise1, noise2, to_rgb in zip(
                self.convs[::2], self.convs[1::2], noises[1::2], noises[2::2], self.to_rgbs):
            out = second(first(out, latent, noise1), latent, noise2)
            skip = to_rgb(out, latent, skip)
        return latent, skip


def conv_layer(in_channels, out_channels, kernel_size, downsample=False, activate=True):
    layers = []
    if downsample:
        p = 2 + kernel_size - 1
        layers.append(Blur(((p + 1) // 2, p // 2)))
    layers.append(EqualConv2d(in_channels, out_channels, kernel_size, stride=2 if downsample else 1,
                              padding=0 if downsample else kernel_size // 2))
    if activate:
        layers.append(FusedLeakyReLU(out_channels))
    return nn.Sequential(*layers)


class ResBlock(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv1 = conv_layer(in_channels, in_channels, 3)
        self.conv2 = conv_layer(in_channels, out_channels, 3, downsample=True)
        self.skip = conv_layer(in_channels, out_channels, 1, downsample=True, activate=False)

    def forward(self, x):
        return (self.conv2(self.conv1(x)) + self.skip(x)) / math.sqrt(2)


class Discriminator(nn.Module):
    def __init__(self, stddev_group=2):
        super().__init__()
        self.convs = nn.Sequential(
            conv_layer(3, CHANNELS[16], 1), ResBlock(CHANNELS[16], CHANNELS[8]), ResBlock(CHANNELS[8], CHANNELS[4]))
        self.stddev_group = stddev_group
        self.final_conv = conv_layer(CHANNELS[4] + 1, CHANNELS[4], 3)
        self.final_linear = nn.Sequential(EqualLinear(CHANNELS[4] * 16, CHANNELS[4], activation=True), EqualLinear(CHANNELS[4], 1))

    def forward(self, x):
        out = self.convs(x)
        batch, channels, height, width = out.shape
        group = out.view(self.stddev_group, -1, channels, height, width)
        stddev = torch.sqrt(group.var(0, unbiased=False) + 1e-8).mean([1, 2, 3], keepdim=True)
        stddev = stddev.repeat(self.stddev_group, 1, height, width)
        out = self.final_conv(torch.cat([out, stddev], 1))
        return self.final_linear(out.flatten(1))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = Generator()
        self.discriminator = Discriminator()

    def forward(self, z, noises, real):
        latent, fake = self.generator(z, noises)
        return latent, fake, self.discriminator(fake), self.discriminator(real)


def g_nonsaturating_loss(fake_pred):
    return F.softplus(-fake_pred).mean()


def d_logistic_loss(real_pred, fake_pred):
    return F.softplus(-real_pred).mean() + F.softplus(fake_pred).mean()


def d_r1_loss(real_pred, real):
    grad, = torch.autograd.grad(real_pred.sum(), real, create_graph=True)
    return grad.pow(2).flatten(1).sum(1).mean()


def loss(model, reals, latents, **noises):
    real = reals.permute(0, 3, 1, 2).contiguous().requires_grad_(True)
    noises = [noises[f"noise{i}"].permute(0, 3, 1, 2) for i in range(5)]
    latent, fake, fake_pred, real_pred = model(latents, noises, real)
    g_loss = g_nonsaturating_loss(fake_pred)
    d_loss = d_logistic_loss(real_pred, fake_pred) + R1_GAMMA / 2 * d_r1_loss(real_pred, real)
    return g_loss, {"dlatents": latent, "fakes": fake, "fake_scores": fake_pred, "real_scores": real_pred, "d_loss": d_loss}
