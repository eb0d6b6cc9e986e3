"""Wide ResNet for small images."""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm2d(nn.BatchNorm2d):
    """Batch norm whose running variance follows the biased variance of the batch."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=(0, 2, 3), unbiased=False)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)
            self.num_batches_tracked.add_(1)
        return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)


class Conv3x3(nn.Conv2d):
    """3x3 convolution that pads a halved image on the right and at the bottom, as the original's SAME does."""

    def __init__(self, in_planes, planes, stride=1):
        super().__init__(in_planes, planes, 3, stride=stride, padding=1 if stride == 1 else 0, bias=False)

    def forward(self, x):
        if self.stride[0] == 2:
            x = F.pad(x, (0, 1, 0, 1))
        return super().forward(x)


class WideBasic(nn.Module):
    def __init__(self, in_planes, planes, stride=1):
        super().__init__()
        self.bn1 = BatchNorm2d(in_planes)
        self.conv1 = Conv3x3(in_planes, planes, stride=stride)
        self.bn2 = BatchNorm2d(planes)
        self.conv2 = Conv3x3(planes, planes)
        self.shortcut = None
        if in_planes != planes:
            self.shortcut = nn.Conv2d(in_planes, planes, 1, stride=stride, bias=False)

    def forward(self, x):
        out = F.relu(self.bn1(x))
        residual = x if self.shortcut is None else self.shortcut(out)
        out = self.conv2(F.relu(self.bn2(self.conv1(out))))
        return out + residual


class Model(nn.Module):
    def __init__(self, num_classes=7):
        super().__init__()
        self.conv1 = Conv3x3(3, 6)
        self.layer1 = nn.Sequential(WideBasic(6, 10), WideBasic(10, 10))
        self.layer2 = nn.Sequential(WideBasic(10, 14, stride=2))
        self.layer3 = nn.Sequential(WideBasic(14, 22, stride=2))
        self.bn1 = BatchNorm2d(22)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(22, num_classes)

    def forward(self, x):
        x = self.conv1(x)
        group_0 = self.layer1(x)
        group_1 = self.layer2(group_0)
        group_2 = self.layer3(group_1)
        x = self.avgpool(F.relu(self.bn1(group_2)))
        return {"group_0": group_0, "group_1": group_1, "group_2": group_2, "logits": self.fc(x.flatten(1))}


def loss(model, images, cutout, labels):
    images = images.permute(0, 3, 1, 2).contiguous()
    if model.training:
        images = images * cutout.unsqueeze(1)
    out = model(images)
    out["cross_entropy"] = F.cross_entropy(out["logits"], labels.long())
    l2 = sum(p.square().sum() for p in model.parameters() if p.dim() > 1)
    return out["cross_entropy"] + 5e-4 * l2 / 2, out


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)


def scheduler(optimizer):
    # two steps at the first rate
    return torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2], gamma=0.2)
