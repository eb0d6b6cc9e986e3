"""Super-resolution generator: residual blocks with PReLU, a long skip, and two stages of pixel shuffle."""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm2d(nn.BatchNorm2d):
    """running_var follows the biased variance of the batch."""

    def forward(self, x):
        if self.training:
            mean, var = x.mean(dim=(0, 2, 3)), x.var(dim=(0, 2, 3), unbiased=False)
            with torch.no_grad():
                self.running_mean.mul_(1 - self.momentum).add_(mean, alpha=self.momentum)
                self.running_var.mul_(1 - self.momentum).add_(var, alpha=self.momentum)
        else:
            mean, var = self.running_mean, self.running_var
        scale = self.weight * torch.rsqrt(var + self.eps)
        return x * scale[:, None, None] + (self.bias - mean * scale)[:, None, None]


def conv3x3(in_channels, out_channels, bias=True):
    return nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1, bias=bias)


class ResidualBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = conv3x3(channels, channels, bias=False)
        self.bn1 = BatchNorm2d(channels, eps=1e-3, momentum=0.25)
        self.prelu = nn.PReLU(channels, init=0.1)
        self.conv2 = conv3x3(channels, channels, bias=False)
        self.bn2 = BatchNorm2d(channels, eps=1e-3, momentum=0.25)

    def forward(self, x):
        residual = self.prelu(self.bn1(self.conv1(x)))
        residual = self.bn2(self.conv2(residual))
        return x + residual


class UpsampleBlock(nn.Module):
    def __init__(self, in_channels, out_channels, up_scale=2):
        super().__init__()
        self.conv = conv3x3(in_channels, out_channels * up_scale**2)
        self.pixel_shuffle = nn.PixelShuffle(up_scale)
        self.prelu = nn.PReLU(out_channels, init=0.1)

    def forward(self, x):
        x = self.conv(x)
        return self.prelu(self.pixel_shuffle(x))


class Model(nn.Module):
    def __init__(self, channels=12, num_blocks=2):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, kernel_size=9, padding=4)
        self.stem_act = nn.PReLU(channels, init=0.1)
        self.blocks = nn.Sequential(*[ResidualBlock(channels) for _ in range(num_blocks)])
        self.trunk_conv = conv3x3(channels, channels, bias=False)
        self.trunk_bn = BatchNorm2d(channels, eps=1e-3, momentum=0.25)
        self.up1 = UpsampleBlock(channels, 8)
        self.up2 = UpsampleBlock(8, 6)
        self.head = nn.Conv2d(6, 3, kernel_size=9, padding=4)

    def forward(self, x):
        stem = self.stem_act(self.stem(x))
        trunk = stem + self.trunk_bn(self.trunk_conv(self.blocks(stem)))
        up1 = self.up1(trunk)
        up2 = self.up2(up1)
        return {
            "input_stage": stem,
            "resblock_output": trunk,
            "subpixelconv_stage1": up1,
            "subpixelconv_stage2": up2,
            "generated": torch.tanh(self.head(up2)),
        }


def total_variation(images):
    """Sum of absolute differences of neighbours, for each image."""
    return images.diff(dim=2).abs().sum(dim=(1, 2, 3)) + images.diff(dim=3).abs().sum(dim=(1, 2, 3))


def loss(model, inputs, targets):
    inputs = inputs.permute(0, 3, 1, 2).contiguous()
    targets = targets.permute(0, 3, 1, 2).contiguous()
    out = model(inputs)
    out["content_loss"] = F.mse_loss(out["generated"], targets, reduction="none").sum(dim=1).mean()
    out["tv_loss"] = total_variation(out["generated"]).mean()
    return out["content_loss"] + 1e-3 * out["tv_loss"], out
