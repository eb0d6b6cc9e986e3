"""Res2Net, small: bottlenecks whose 3x3 convolution is a cascade over groups of channels."""

import math

import torch
from torch import nn
from torch.nn import functional as F

GLOBAL_BATCH = 16
WORLD_SIZE = 4


class BatchNorm(nn.BatchNorm2d):
    """Batch norm whose running variance is the batch's biased one, as in the original training."""

    def forward(self, x):
        if not self.training:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
            self.running_mean.mul_(1 - self.momentum).add_(mean, alpha=self.momentum)
            self.running_var.mul_(1 - self.momentum).add_(var, alpha=self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)


def conv3x3(channels_in, channels_out, stride=1):
    return nn.Conv2d(channels_in, channels_out, 3, stride=stride, padding=1, bias=False)


def conv1x1(channels_in, channels_out):
    return nn.Conv2d(channels_in, channels_out, 1, bias=False)


class Bottle2neck(nn.Module):
    def __init__(self, inplanes, planes, width, stride=1, stage=False, scale=4):
        super().__init__()
        self.stage = stage
        self.scale = scale
        self.conv1 = conv1x1(inplanes, width * scale)
        self.bn1 = BatchNorm(width * scale)
        self.convs = nn.ModuleList(conv3x3(width, width, stride) for _ in range(scale - 1))
        self.bns = nn.ModuleList(BatchNorm(width) for _ in range(scale - 1))
        self.conv3 = conv1x1(width * scale, planes)
        self.bn3 = BatchNorm(planes)
        self.downsample = None
        if stage:
            if stride == 1:
                self.pool = nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)
                self.downsample = nn.Sequential(conv1x1(inplanes, planes), BatchNorm(planes))
            else:
                # SAME at even sizes: nothing on the left and top, windows at the right and bottom are cut
                self.pool = nn.AvgPool2d(3, stride=stride, ceil_mode=True)
                self.downsample = nn.Sequential(nn.AvgPool2d(stride), conv1x1(inplanes, planes), BatchNorm(planes))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        *chunks, last = F.relu(self.bn1(self.conv1(x))).chunk(self.scale, dim=1)
        outs = []
        for chunk, conv, bn in zip(chunks, self.convs, self.bns):
            y = chunk if self.stage or not outs else outs[-1] + chunk
            outs.append(F.relu(bn(conv(y))))
        outs.append(self.pool(last) if self.stage else last)
        out = self.bn3(self.conv3(torch.cat(outs, dim=1)))
        return F.relu(out + identity)


class Res2Net(nn.Module):
    def __init__(self, num_classes=10):
        super().__init__()
        self.conv1 = conv3x3(3, 16)
        self.bn1 = BatchNorm(16)
        self.layer1 = nn.Sequential(Bottle2neck(16, 32, 4, stage=True), Bottle2neck(32, 32, 4))
        self.layer2 = nn.Sequential(Bottle2neck(32, 48, 8, stride=2, stage=True), Bottle2neck(48, 48, 8))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(48, num_classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        layer1 = self.layer1(x)
        layer2 = self.layer2(layer1)
        pooled = self.avgpool(layer2).flatten(1)
        return {"block_layer1": layer1, "block_layer2": layer2, "final_reduce_mean": pooled, "logits": self.fc(pooled)}


def l2_penalty(model):
    total = 0.0
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            total = total + sum(p.square().sum() for p in module.parameters())
    return total / 2


def loss(model, features, label):
    out = model(features.permute(0, 3, 1, 2))
    cross_entropy = F.cross_entropy(out["logits"], label.long(), label_smoothing=0.1, reduction="sum") / GLOBAL_BATCH
    return cross_entropy + 2e-4 / WORLD_SIZE * l2_penalty(model), out


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)


def scheduler(optimizer, decay_steps=12):
    def factor(step):
        return 0.5 * (1 + math.cos(math.pi * min(step, decay_steps) / decay_steps))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
