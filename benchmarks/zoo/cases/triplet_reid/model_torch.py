"""A small strong baseline for person re-identification: ResNet trunk, BNNeck, batch-hard triplets and label smoothing."""

import torch
from torch import nn
from torch.nn import functional as F


class _BiasedRunningVar:
    """Training statistics as the original keeps them: the running variance follows the biased variance."""

    def forward(self, x):
        if self.training:
            dims = [d for d in range(x.dim()) if d != 1]
            var, mean = torch.var_mean(x.detach(), dim=dims, unbiased=False)
            self.running_mean.mul_(1 - self.momentum).add_(mean, alpha=self.momentum)
            self.running_var.mul_(1 - self.momentum).add_(var, alpha=self.momentum)
            return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)
        return super().forward(x)


class BatchNorm2d(_BiasedRunningVar, nn.BatchNorm2d):
    pass


class BatchNorm1d(_BiasedRunningVar, nn.BatchNorm1d):
    pass


class Normalize(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = [123.68, 116.78, 103.94]
        self.std = 58.0

    def forward(self, x):
        return (x - x.new_tensor(self.mean).view(1, 3, 1, 1)) / self.std


class MaxPoolSame(nn.Module):
    """3x3 windows in steps of 2, the last ones reaching over the right and bottom edge."""

    def forward(self, x):
        return F.max_pool2d(F.pad(x, (0, 1, 0, 1), value=float("-inf")), 3, stride=2)


class BasicBlock(nn.Module):
    def __init__(self, inplanes, planes, stride=1):
        super().__init__()
        self.stride = stride
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride=stride, padding=1 if stride == 1 else 0, bias=False)
        self.bn1 = BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = BatchNorm2d(planes)
        self.downsample = None
        if stride != 1:
            self.downsample = nn.Sequential(nn.Conv2d(inplanes, planes, 1, stride=stride, bias=False), BatchNorm2d(planes))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        if self.stride == 2:
            x = F.pad(x, (0, 1, 0, 1))
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + identity)


class Head(nn.Module):
    def __init__(self, in_features, num_classes):
        super().__init__()
        self.bottleneck = BatchNorm1d(in_features)
        self.bottleneck.bias.requires_grad_(False)  # no shift
        self.classifier = nn.Linear(in_features, num_classes, bias=False)

    def forward(self, features):
        neck = self.bottleneck(features)
        return neck, self.classifier(neck)


class Model(nn.Module):
    def __init__(self, num_classes=9):
        super().__init__()
        self.normalize = Normalize()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn1 = BatchNorm2d(8)
        self.maxpool = MaxPoolSame()
        self.layer1 = BasicBlock(8, 8)
        self.layer2 = BasicBlock(8, 14, stride=2)
        self.head = Head(14, num_classes)

    def forward(self, x):
        stem = self.maxpool(F.relu(self.bn1(self.conv1(self.normalize(x)))))
        features = self.layer2(self.layer1(stem)).mean(dim=(2, 3))
        neck, logits = self.head(features)
        return {"stem": stem, "features": features, "neck": neck, "logits": logits}


def pairwise_distance(features):
    diff = features.unsqueeze(1) - features.unsqueeze(0)
    return (diff.square().sum(dim=-1) + 1e-12).sqrt()


def triplet_loss(features, pids):
    dist = pairwise_distance(features)
    same = pids.unsqueeze(1) == pids.unsqueeze(0)
    itself = torch.eye(len(pids), dtype=torch.bool, device=pids.device)
    hardest_positive = dist.masked_fill(~same | itself, 0.0).max(dim=1).values
    hardest_negative = dist.masked_fill(same, float("inf")).min(dim=1).values
    return F.softplus(hardest_positive - hardest_negative).mean()


def loss(model, images, pids):
    out = model(images.permute(0, 3, 1, 2).contiguous())
    out["triplet"] = triplet_loss(out["features"], pids)
    out["id_loss"] = F.cross_entropy(out["logits"], pids.long(), label_smoothing=0.1)
    return out["id_loss"] + out["triplet"], out
