"""A small network of rotated filters, max-pooled over the four orientations."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class RotatedConv2d(nn.Module):
    """One weight, convolved in four orientations, of which the strongest is kept at every place."""

    def __init__(self, in_channels, out_channels, stride=1):
        super().__init__()
        self.stride = stride
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels, 3, 3))
        self.bias = nn.Parameter(torch.zeros(out_channels))
        nn.init.kaiming_normal_(self.weight)

    def forward(self, x):
        bank = torch.cat([torch.rot90(self.weight, k, dims=(2, 3)) for k in range(4)])
        # SAME: at stride 2 and an even size the row and column more are at the end
        x = F.pad(x, (1, 1, 1, 1) if self.stride == 1 else (0, 1, 0, 1))
        y = F.conv2d(x, bank, stride=self.stride)
        n, _, h, w = y.shape
        return y.view(n, 4, -1, h, w).amax(dim=1) + self.bias[:, None, None]


class BatchNorm1d(nn.BatchNorm1d):
    """Tracks the biased variance."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=0, unbiased=False)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, True, eps=self.eps)


class Model(nn.Module):
    def __init__(self, num_classes=6, widths=(8, 12, 16)):
        super().__init__()
        blocks, channels = [], 2
        for i, width in enumerate(widths):
            blocks.append(nn.Sequential(
                RotatedConv2d(channels, width, stride=1 if i == 0 else 2),
                nn.GroupNorm(4, width),
                nn.ReLU()))
            channels = width
        self.blocks = nn.ModuleList(blocks)
        self.norm = BatchNorm1d(channels, eps=1e-3, momentum=0.1)
        self.fc = nn.Linear(channels, num_classes)

    def forward(self, x):
        outputs = {}
        for i, block in enumerate(self.blocks):
            x = block(x)
            outputs[f"block{i}"] = x
        outputs["pooled"] = self.norm(x.mean(dim=(2, 3)))
        outputs["logits"] = self.fc(outputs["pooled"])
        return outputs


def loss(model, images, labels, decay=5e-3):
    outputs = model(images.permute(0, 3, 1, 2))
    cross_entropy = F.cross_entropy(outputs["logits"], labels.long())
    outputs["cross_entropy"] = cross_entropy
    if not model.training:
        return cross_entropy, outputs
    penalty = sum(p.square().sum() for p in model.parameters() if p.dim() > 1) / 2
    return cross_entropy + decay * penalty, outputs


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)


def scheduler(optimizer, steps=12, alpha=0.1):
    def factor(step):
        cosine = 0.5 * (1 + math.cos(math.pi * min(step, steps) / steps))
        return (1 - alpha) * cosine + alpha

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
