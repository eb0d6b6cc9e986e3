"""R(2+1)D after torchvision's VideoResNet."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm3d(nn.BatchNorm3d):
    """Keeps the batch's biased variance, as the original does."""

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                var, mean = torch.var_mean(x, dim=(0, 2, 3, 4), unbiased=False)
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var, self.momentum)
            return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)


def norm(planes):
    return BatchNorm3d(planes, eps=1e-3, momentum=0.1)


def spatial(inplanes, planes, stride):
    return nn.Conv3d(inplanes, planes, (1, 3, 3), stride=(1, stride, stride), padding=(0, 1, 1), bias=False)


def temporal(inplanes, planes, stride):
    return nn.Conv3d(inplanes, planes, (3, 1, 1), stride=(stride, 1, 1), padding=(1, 0, 0), bias=False)


class Conv2Plus1D(nn.Sequential):
    def __init__(self, inplanes, planes, stride=1):
        mid = (inplanes * planes * 27) // (inplanes * 9 + 3 * planes)
        super().__init__(spatial(inplanes, mid, stride), norm(mid), nn.ReLU(), temporal(mid, planes, stride))


class BasicBlock(nn.Module):
    def __init__(self, inplanes, planes, stride=1):
        super().__init__()
        self.conv1 = nn.Sequential(Conv2Plus1D(inplanes, planes, stride), norm(planes), nn.ReLU())
        self.conv2 = nn.Sequential(Conv2Plus1D(planes, planes), norm(planes))
        self.downsample = None
        if stride != 1 or inplanes != planes:
            self.downsample = nn.Sequential(nn.Conv3d(inplanes, planes, 1, stride=stride, bias=False), norm(planes))

    def forward(self, x):
        residual = x if self.downsample is None else self.downsample(x)
        return F.relu(self.conv2(self.conv1(x)) + residual)


class Model(nn.Module):
    def __init__(self, num_classes=6):
        super().__init__()
        self.stem = nn.Sequential(spatial(3, 6, 2), norm(6), nn.ReLU(), temporal(6, 6, 1), norm(6), nn.ReLU())
        self.layer1 = BasicBlock(6, 6)
        self.layer2 = BasicBlock(6, 10, stride=2)
        self.fc = nn.Linear(10, num_classes)

    def forward(self, x):
        stem = self.stem(x)
        block1 = self.layer1(stem)
        block2 = self.layer2(block1)
        logits = self.fc(block2.mean(dim=(2, 3, 4)))
        return {"stem": stem, "block1": block1, "block2": block2, "logits": logits}


def loss(model, clips, labels):
    out = model(clips.permute(0, 4, 1, 2, 3))
    out["cross_entropy"] = F.cross_entropy(out["logits"], labels.long(), label_smoothing=0.1)
    l2 = sum(p.pow(2).sum() for p in model.parameters() if p.ndim > 1)
    return out["cross_entropy"] + 0.5 * 1e-3 * l2, out


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * min(step, 6) / 6)))
