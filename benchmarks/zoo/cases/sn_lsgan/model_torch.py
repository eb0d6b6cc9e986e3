"""Least-squares GAN with a spectrally normalised discriminator."""

import torch
from torch import nn
from torch.nn import functional as F


def normalized(v, eps=1e-12):
    return v / (v.norm() + eps)


class SpectralNorm(nn.Module):
    """Divides a weight by an estimate of its largest singular value, found by power iteration from a fixed start."""

    def __init__(self, out_features, iterations=2):
        super().__init__()
        self.iterations = iterations
        self.register_buffer("u", torch.randn(out_features))

    def forward(self, weight):
        matrix = weight.flatten(1)
        with torch.no_grad():
            u = self.u
            for _ in range(self.iterations):
                v = normalized(u @ matrix)
                u = normalized(matrix @ v)
        sigma = u @ matrix @ v
        return weight / sigma


class SNConv2d(nn.Conv2d):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1):
        super().__init__(in_channels, out_channels, kernel_size, stride=stride, padding=1)
        self.spectral = SpectralNorm(out_channels)

    def forward(self, x):
        return F.conv2d(x, self.spectral(self.weight), self.bias, self.stride, self.padding)


class SNLinear(nn.Linear):
    def __init__(self, in_features, out_features):
        super().__init__(in_features, out_features)
        self.spectral = SpectralNorm(out_features)

    def forward(self, x):
        return F.linear(x, self.spectral(self.weight), self.bias)


class BatchNorm(nn.Module):
    """Batch norm over all axes but the channels; its running variance is the biased one."""

    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x):
        if not self.training:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=[d for d in range(x.dim()) if d != 1], unbiased=False)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)


class Generator(nn.Module):
    def __init__(self, noise_size=20):
        super().__init__()
        self.fc = nn.Linear(noise_size, 4 * 4 * 32, bias=False)
        self.bn0 = BatchNorm(4 * 4 * 32)
        # SAME with kernel 5 and stride 2 cuts one row at the start and two at the end
        self.up1 = nn.ConvTranspose2d(32, 16, 5, stride=2, padding=1, bias=False)
        self.bn1 = BatchNorm(16)
        self.up2 = nn.ConvTranspose2d(16, 1, 5, stride=2, padding=1)

    def forward(self, z):
        x = F.relu(self.bn0(self.fc(z)))
        x = x.view(-1, 4, 4, 32).permute(0, 3, 1, 2)
        x = F.relu(self.bn1(self.up1(x)[:, :, :-1, :-1]))
        return torch.tanh(self.up2(x)[:, :, :-1, :-1])


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv_a = SNConv2d(1, 12, 3)
        self.conv_b = SNConv2d(12, 16, 4, stride=2)
        self.conv_c = SNConv2d(16, 24, 4, stride=2)
        self.score = SNLinear(24, 1)

    def forward(self, x):
        for conv in (self.conv_a, self.conv_b, self.conv_c):
            x = F.leaky_relu(conv(x), 0.2)
        return self.score(x.sum(dim=(2, 3)))


class GAN(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = Generator()
        self.discriminator = Discriminator()

    def forward(self, images, noise):
        fake = self.generator(noise)
        return fake, self.discriminator(torch.cat([images, fake]))


def loss(model, images, noise):
    fake, scores = model(images.permute(0, 3, 1, 2), noise)
    real_score, fake_score = scores.chunk(2)
    d_real = 0.5 * (real_score - 0.9).pow(2).mean()
    d_fake = 0.5 * fake_score.pow(2).mean()
    g_loss = 0.5 * (fake_score - 1.0).pow(2).mean()
    return d_real + d_fake, {"fake": fake, "scores": scores, "d_real": d_real, "d_fake": d_fake, "g_loss": g_loss}
