"""A stem and one mixed block of Inception, laid out as torchvision's."""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm(nn.BatchNorm2d):
    """Shifts but does not scale, and its running variance is the batch's own (no n / (n - 1)), as in TF-slim."""

    def __init__(self, num_features, eps=0.001, momentum=0.01):
        super().__init__(num_features, eps=eps, momentum=momentum, affine=False)
        self.bias = nn.Parameter(torch.zeros(num_features))

    def forward(self, x):
        if not self.training:
            return F.batch_norm(x, self.running_mean, self.running_var, None, self.bias, False, 0.0, self.eps)
        mean = x.mean((0, 2, 3))
        var = (x - mean[:, None, None]).pow(2).mean((0, 2, 3))
        with torch.no_grad():
            self.running_mean.mul_(1 - self.momentum).add_(mean, alpha=self.momentum)
            self.running_var.mul_(1 - self.momentum).add_(var, alpha=self.momentum)
        scale = torch.rsqrt(var + self.eps)
        return (x - mean[:, None, None]) * scale[:, None, None] + self.bias[:, None, None]


class BasicConv2d(nn.Module):
    def __init__(self, in_channels, out_channels, **kwargs):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, bias=False, **kwargs)
        self.bn = BatchNorm(out_channels)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)), inplace=True)


class InceptionA(nn.Module):
    def __init__(self, in_channels):
        super().__init__()
        self.branch1x1 = BasicConv2d(in_channels, 8, kernel_size=1)
        self.branch5x5_1 = BasicConv2d(in_channels, 6, kernel_size=1)
        self.branch5x5_2 = BasicConv2d(6, 8, kernel_size=5, padding=2)
        self.branch7x7_1 = BasicConv2d(in_channels, 6, kernel_size=1)
        self.branch7x7_2 = BasicConv2d(6, 8, kernel_size=(1, 7), padding=(0, 3))
        self.branch7x7_3 = BasicConv2d(8, 8, kernel_size=(7, 1), padding=(3, 0))
        self.branch_pool = BasicConv2d(in_channels, 8, kernel_size=1)

    def forward(self, x):
        branch1x1 = self.branch1x1(x)
        branch5x5 = self.branch5x5_2(self.branch5x5_1(x))
        branch7x7 = self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x)))
        pooled = F.avg_pool2d(x, kernel_size=3, stride=1, padding=1, count_include_pad=False)
        branch_pool = self.branch_pool(pooled)
        return torch.cat([branch1x1, branch5x5, branch7x7, branch_pool], 1), branch_pool


class InceptionB(nn.Module):
    def __init__(self, in_channels):
        super().__init__()
        self.branch3x3 = BasicConv2d(in_channels, 16, kernel_size=3, stride=2)

    def forward(self, x):
        return torch.cat([self.branch3x3(x), F.max_pool2d(x, kernel_size=3, stride=2)], 1)


class Model(nn.Module):
    def __init__(self, num_classes=8):
        super().__init__()
        self.Conv2d_1a = BasicConv2d(3, 8, kernel_size=3, stride=2)
        self.Conv2d_2a = BasicConv2d(8, 12, kernel_size=3, padding=1)
        self.mixed_a = InceptionA(12)
        self.mixed_b = InceptionB(32)
        self.fc = nn.Linear(48, num_classes)

    def forward(self, x):
        stem = self.Conv2d_2a(self.Conv2d_1a(F.pad(x, (0, 1, 0, 1))))
        mixed_5b, branch_3 = self.mixed_a(stem)
        mixed_6a = self.mixed_b(mixed_5b)
        logits = self.fc(F.adaptive_avg_pool2d(mixed_6a, 1).flatten(1))
        return {"stem": stem, "branch_3": branch_3, "Mixed_5b": mixed_5b, "Mixed_6a": mixed_6a, "Logits": logits}


def loss(model, images, labels):
    out = model(images.permute(0, 3, 1, 2).contiguous())
    return F.cross_entropy(out["Logits"], labels, label_smoothing=0.1), out
