"""A small HRNet for key points: two resolutions that exchange features twice."""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm2d(nn.BatchNorm2d):
    """Keeps the biased batch variance in running_var, as the original does."""

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                var, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var, self.momentum)
            return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)
        return super().forward(x)


def norm(channels):
    return BatchNorm2d(channels, momentum=0.1)


def conv_bn(in_channels, out_channels, kernel_size=3, stride=1):
    padding = (kernel_size - 1) // 2
    conv = nn.Conv2d(in_channels, out_channels, kernel_size, stride=stride, padding=padding, bias=False)
    return [conv, norm(out_channels)]


class BasicBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = norm(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, bias=False, padding=1)
        self.bn2 = norm(channels)

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + x)


class FuseLayer(nn.Module):
    def __init__(self, high, low):
        super().__init__()
        self.up = nn.Sequential(*conv_bn(low, high, kernel_size=1), nn.Upsample(scale_factor=2, mode="nearest"))
        self.down = nn.Sequential(*conv_bn(high, low, stride=2))

    def forward(self, high, low):
        fused_high = F.relu(high + self.up(low))
        fused_low = F.relu(low + self.down(high))
        return fused_high, fused_low


class Stage(nn.Module):
    def __init__(self, high, low):
        super().__init__()
        self.branches = nn.ModuleList([BasicBlock(high), BasicBlock(low)])
        self.fuse = FuseLayer(high, low)

    def forward(self, high, low):
        return self.fuse(self.branches[0](high), self.branches[1](low))


class Model(nn.Module):
    def __init__(self, num_joints=7, stem=16, high=12, low=20):
        super().__init__()
        self.stem = nn.Sequential(*conv_bn(3, stem, stride=2), nn.ReLU())
        self.transition_high = nn.Sequential(*conv_bn(stem, high), nn.ReLU())
        self.transition_low = nn.Sequential(*conv_bn(stem, low, stride=2), nn.ReLU())
        self.stages = nn.ModuleList([Stage(high, low), Stage(high, low)])
        self.final_layer = nn.Conv2d(high + low, num_joints, 1)

    def forward(self, images):
        x = self.stem(images)
        high, low = self.transition_high(x), self.transition_low(x)
        for stage in self.stages:
            high, low = stage(high, low)
        upsampled = F.interpolate(low, size=high.shape[-2:])
        return high, low, self.final_layer(torch.cat([high, upsampled], dim=1))


class JointsMSELoss(nn.Module):
    """Mean squared error of heatmaps where both are multiplied by each joint's weight."""

    def forward(self, output, target, target_weight):
        weight = target_weight[:, :, None, None]
        return 0.5 * F.mse_loss(output * weight, target * weight)


def loss(model, images, heatmaps, visibility):
    high, low, pred = model(images.permute(0, 3, 1, 2))
    total = JointsMSELoss()(pred, heatmaps.permute(0, 3, 1, 2), visibility)
    return total, {"high": high, "low": low, "pred": pred}


def scheduler(optimizer):
    # a boundary of the original is the last step at the old rate
    return torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 2], gamma=0.1)
