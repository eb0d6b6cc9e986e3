"""Shake-Shake regularised ResNet. The mixing coefficients are inputs, so that a run can be repeated."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class BatchNorm2d(nn.BatchNorm2d):
    """nn.BatchNorm2d, but the running variance follows the biased variance of the batch."""

    def __init__(self, num_features, eps=1e-3, momentum=0.1):
        super().__init__(num_features, eps=eps, momentum=momentum)

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)


def shake(x, forward, backward):
    """Scales by `forward` on the way up and by `backward` on the way down."""
    return x * backward + (x * forward - x * backward).detach()


class SamePadConv2d(nn.Conv2d):
    """A 3x3 convolution that pads like TensorFlow: with stride 2 an even map gets its zeros at the far side only."""

    def forward(self, x):
        pad = (0, 1, 0, 1) if self.stride[0] == 2 else (1, 1, 1, 1)
        return super().forward(F.pad(x, pad))


class Branch(nn.Module):
    def __init__(self, in_channels, channels, stride):
        super().__init__()
        self.conv1 = SamePadConv2d(in_channels, channels, 3, stride=stride, bias=False)
        self.bn1 = BatchNorm2d(channels)
        self.conv2 = SamePadConv2d(channels, channels, 3, bias=False)
        self.bn2 = BatchNorm2d(channels)

    def forward(self, x):
        x = self.bn1(self.conv1(F.relu(x)))
        return self.bn2(self.conv2(F.relu(x)))


class Shortcut(nn.Module):
    """Halves the map by two 1x1 paths that look at pixels one apart on the diagonal."""

    def __init__(self, in_channels, channels):
        super().__init__()
        self.left = nn.Conv2d(in_channels, channels // 2, 1, bias=False)
        self.right = nn.Conv2d(in_channels, channels // 2, 1, bias=False)
        self.bn = BatchNorm2d(channels)

    def forward(self, x):
        shifted = F.pad(x, (0, 1, 0, 1))[:, :, 1:, 1:]
        out = torch.cat([self.left(x[:, :, ::2, ::2]), self.right(shifted[:, :, ::2, ::2])], dim=1)
        return self.bn(out)


class ShakeBlock(nn.Module):
    def __init__(self, in_channels, channels, stride):
        super().__init__()
        self.branches = nn.ModuleList([Branch(in_channels, channels, stride) for _ in range(2)])
        self.shortcut = nn.Identity() if in_channels == channels else Shortcut(in_channels, channels)

    def forward(self, x, forward, backward):
        forward = forward / forward.sum(1, keepdim=True)
        backward = backward / backward.sum(1, keepdim=True)
        out = 0
        for i, branch in enumerate(self.branches):
            y = branch(x)
            if self.training:
                y = shake(y, forward[:, i].view(-1, 1, 1, 1), backward[:, i].view(-1, 1, 1, 1))
            else:
                y = y / len(self.branches)
            out = out + y
        return self.shortcut(x) + out


class Model(nn.Module):
    def __init__(self, num_classes=6):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), BatchNorm2d(8))
        self.blocks = nn.ModuleList([ShakeBlock(8, 8, 1), ShakeBlock(8, 16, 2), ShakeBlock(16, 24, 2)])
        self.fc = nn.Linear(24, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, nonlinearity="relu")
        nn.init.xavier_uniform_(self.fc.weight)
        nn.init.zeros_(self.fc.bias)

    def forward(self, images, rand_forward, rand_backward):
        x = self.stem(images.permute(0, 3, 1, 2))
        for i, block in enumerate(self.blocks):
            x = block(x, rand_forward[:, i], rand_backward[:, i])
        return self.fc(F.relu(x).mean(dim=(2, 3)))


def loss(model, images, labels, rand_forward, rand_backward):
    logits = model(images, rand_forward, rand_backward)
    cross_entropy = F.cross_entropy(logits, labels.long())
    decayed = [p for p in model.parameters() if p.dim() > 1]
    l2 = sum(p.pow(2).sum() for p in decayed) / 2
    return cross_entropy + 1e-3 * l2, {"logits": logits, "cross_entropy": cross_entropy}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * min(step, 12) / 12)))
