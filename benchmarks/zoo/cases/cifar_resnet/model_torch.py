"""ResNet in torchvision's layout; stride-2 layers pad as TensorFlow's SAME does, on the right and bottom only."""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm2d(nn.BatchNorm2d):
    """Keeps the biased batch variance in running_var, as the original does."""

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                var, mean = torch.var_mean(x, dim=(0, 2, 3), unbiased=False)
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var, self.momentum)
            return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)


def norm(planes):
    return BatchNorm2d(planes, eps=1e-3, momentum=0.1)


class BasicBlock(nn.Module):
    def __init__(self, inplanes, planes, stride=1):
        super().__init__()
        self.stride = stride
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride=stride, padding=1 if stride == 1 else 0, bias=False)
        self.bn1 = norm(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = norm(planes)
        self.downsample = None
        if stride != 1:
            self.downsample = nn.Sequential(nn.Conv2d(inplanes, planes, 1, stride=stride, bias=False), norm(planes))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        if self.stride == 2:
            x = F.pad(x, (0, 1, 0, 1))
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + identity)


class Model(nn.Module):
    def __init__(self, num_classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn1 = norm(8)
        self.layer1 = BasicBlock(8, 8)
        self.layer2 = BasicBlock(8, 16, stride=2)
        self.layer3 = BasicBlock(16, 32, stride=2)
        self.fc = nn.Linear(32, num_classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        stem = F.max_pool2d(F.pad(x, (0, 1, 0, 1), value=float("-inf")), 3, stride=2)
        unit_1 = self.layer1(stem)
        unit_2 = self.layer2(unit_1)
        unit_3 = self.layer3(unit_2)
        logits = self.fc(unit_3.mean(dim=(2, 3)))
        return {"stem": stem, "unit_1": unit_1, "unit_2": unit_2, "unit_3": unit_3, "logits": logits}


def loss(model, images, labels):
    out = model(images.permute(0, 3, 1, 2).contiguous())
    out["cross_entropy"] = F.cross_entropy(out["logits"], labels.long())
    l2 = sum(p.pow(2).sum() for p in model.parameters() if p.ndim > 1)
    return out["cross_entropy"] + 0.5 * 5e-4 * l2, out


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def scheduler(optimizer):
    # the original's boundary 1 is the last step at the old rate
    return torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2], gamma=0.1)
