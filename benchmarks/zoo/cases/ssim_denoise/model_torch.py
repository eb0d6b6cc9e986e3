"""DnCNN for colour patches, trained with a mix of SSIM and L1."""

import torch
from torch import nn
from torch.nn import functional as F

ALPHA = 0.84


class BatchNorm2d(nn.BatchNorm2d):
    """Keeps the biased batch variance in running_var, as the original does."""

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                var, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var, self.momentum)
            return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, training=False, eps=self.eps)


class ConvBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn = BatchNorm2d(channels, eps=1e-3, momentum=0.05)
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(self.bn(self.conv(x)))


class Model(nn.Module):
    def __init__(self, image_channels=3, n_channels=14, n_blocks=2):
        super().__init__()
        self.head = nn.Sequential(nn.Conv2d(image_channels, n_channels, 3, padding=1), nn.ReLU(inplace=True))
        self.blocks = nn.Sequential(*[ConvBlock(n_channels) for _ in range(n_blocks)])
        self.tail = nn.Conv2d(n_channels, image_channels, 3, padding=1)

    def forward(self, noisy):
        residual = self.tail(self.blocks(self.head(noisy)))
        return residual, noisy - residual


def gaussian_window(size, sigma, like):
    offsets = torch.arange(size, dtype=like.dtype, device=like.device) - size // 2
    g = torch.exp(-offsets.square() / (2 * sigma ** 2))
    g = g / g.sum()
    return torch.outer(g, g)


def ssim(x, y, window_size=7, sigma=1.5, data_range=1.0):
    channels = x.size(1)
    window = gaussian_window(window_size, sigma, x).expand(channels, 1, window_size, window_size)
    c1, c2 = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2

    def blur(image):
        return F.conv2d(image, window, groups=channels)

    mu_x, mu_y = blur(x), blur(y)
    var_x = blur(x * x) - mu_x.square()
    var_y = blur(y * y) - mu_y.square()
    cov = blur(x * y) - mu_x * mu_y
    luminance = (2 * mu_x * mu_y + c1) / (mu_x.square() + mu_y.square() + c1)
    contrast = (2 * cov + c2) / (var_x + var_y + c2)
    return (luminance * contrast).mean()


def loss(model, noisy, clean):
    noisy, clean = noisy.permute(0, 3, 1, 2), clean.permute(0, 3, 1, 2)
    residual, denoised = model(noisy)
    similarity = ssim(denoised, clean)
    l1 = F.l1_loss(denoised, clean)
    mse = (denoised - clean).square().mean(dim=(1, 2, 3))
    total = ALPHA * (1 - similarity) + (1 - ALPHA) * l1
    return total, {
        "residual": residual,
        "denoised": denoised,
        "ssim": similarity,
        "l1": l1,
        "psnr": (-10 * torch.log10(mse)).mean(),
    }


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)


def scheduler(optimizer):
    start, end, steps, power = 0.05, 0.001, 10, 2.0

    def factor(step):
        remaining = 1 - min(step, steps) / steps
        return ((start - end) * remaining ** power + end) / start

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
