"""A small DPN in the pre-activation form."""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm(nn.BatchNorm2d):
    """Keeps the biased variance of the batch as its running estimate, as the original training did."""

    def __init__(self, channels):
        super().__init__(channels, eps=1e-3, momentum=0.1)

    def forward(self, x):
        if self.training:
            var, mean = torch.var_mean(x.detach(), dim=(0, 2, 3), unbiased=False)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)
            return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)


def pad_bottom_right(x, value=0.0):
    return F.pad(x, (0, 1, 0, 1), value=value)


class BnActConv(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size=1, stride=1, groups=1):
        super().__init__()
        self.pad = kernel_size > 1 and stride == 2
        self.bn = BatchNorm(in_channels)
        padding = 0 if self.pad else kernel_size // 2
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, stride, padding, groups=groups, bias=False)

    def forward(self, x):
        x = F.relu(self.bn(x))
        return self.conv(pad_bottom_right(x) if self.pad else x)


class DualPathBlock(nn.Module):
    def __init__(self, in_channels, res_channels, mid_channels, inc, stride=1, project=False):
        super().__init__()
        self.res_channels = res_channels
        self.inc = inc
        self.shortcut = BnActConv(in_channels, res_channels + 2 * inc, 1, stride) if project else None
        self.reduce = BnActConv(in_channels, mid_channels)
        self.grouped = BnActConv(mid_channels, mid_channels, 3, stride, groups=4)
        self.expand = BnActConv(mid_channels, res_channels + inc)

    def forward(self, residual, dense):
        x = torch.cat([residual, dense], dim=1) if dense is not None else residual
        if self.shortcut is not None:
            residual, dense = self.shortcut(x).split([self.res_channels, 2 * self.inc], dim=1)
        out = self.expand(self.grouped(self.reduce(x)))
        add, grow = out.split([self.res_channels, self.inc], dim=1)
        return residual + add, torch.cat([dense, grow], dim=1)


class Model(nn.Module):
    def __init__(self, num_classes=6):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.stem_norm = BatchNorm(8)
        self.blocks = nn.ModuleList([
            DualPathBlock(8, 8, 8, 2, project=True),
            DualPathBlock(14, 8, 8, 2),
            DualPathBlock(16, 16, 16, 4, stride=2, project=True),
            DualPathBlock(28, 16, 16, 4),
        ])
        self.head_norm = BatchNorm(32)
        self.head = nn.Linear(32, num_classes)

    def forward(self, images):
        x = F.relu(self.stem_norm(self.stem(images)))
        x = F.max_pool2d(pad_bottom_right(x, float("-inf")), 3, stride=2)
        residual, dense = x, None
        for block in self.blocks:
            residual, dense = block(residual, dense)
        features = F.relu(self.head_norm(torch.cat([residual, dense], dim=1)))
        logits = self.head(features.mean(dim=(2, 3)))
        return {"stem": x, "residual": residual, "dense": dense, "logits": logits}


def loss(model, images, labels):
    out = model(images.permute(0, 3, 1, 2))
    decay = sum(p.square().sum() for p in model.parameters() if p.ndim > 1) / 2
    return F.cross_entropy(out["logits"], labels.long()) + 1e-3 * decay, out


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)


def scheduler(optimizer):
    # the boundary itself still belongs to the first rate
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 if step <= 1 else 0.1)
