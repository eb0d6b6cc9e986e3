"""Pre-activation ResNet with basic blocks, trained with Nesterov momentum and l2 in the loss."""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm2d(nn.BatchNorm2d):
    """Batch norm whose running variance is of the biased variances of the batches."""

    def __init__(self, num_features):
        super().__init__(num_features, eps=1e-5, momentum=0.1)

    def forward(self, x):
        if not self.training:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
            self.running_mean += self.momentum * (mean - self.running_mean)
            self.running_var += self.momentum * (var - self.running_var)
        return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)


class PreActBlock(nn.Module):
    def __init__(self, in_planes, planes, stride=1, project=False):
        super().__init__()
        self.bn1 = BatchNorm2d(in_planes)
        self.conv1 = nn.Conv2d(in_planes, planes, 3, stride=stride, padding=1, bias=False)
        self.bn2 = BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride=1, padding=1, bias=False)
        self.shortcut = nn.Conv2d(in_planes, planes, 1, stride=stride, bias=False) if project else None

    def forward(self, x):
        out = F.relu(self.bn1(x))
        shortcut = x if self.shortcut is None else self.shortcut(out)
        out = self.conv1(out)
        out = self.conv2(F.relu(self.bn2(out)))
        return out + shortcut


class Head(nn.Module):
    def __init__(self, planes, num_classes):
        super().__init__()
        self.bn = BatchNorm2d(planes)
        self.fc = nn.Linear(planes, num_classes)

    def forward(self, x):
        x = F.relu(self.bn(x))
        return self.fc(x.mean(dim=(2, 3)))


class Model(nn.Module):
    def __init__(self, num_classes=9, stem=6, planes=(10, 14, 22), num_blocks=(1, 2, 1), strides=(1, 2, 2)):
        super().__init__()
        self.conv1 = nn.Conv2d(3, stem, 3, padding=1, bias=False)
        stages, in_planes = [], stem
        for width, blocks, stride in zip(planes, num_blocks, strides):
            first = PreActBlock(in_planes, width, stride, project=True)
            stages.append(nn.Sequential(first, *(PreActBlock(width, width) for _ in range(1, blocks))))
            in_planes = width
        self.layer1, self.layer2, self.layer3 = stages
        self.head = Head(in_planes, num_classes)

    def forward(self, x):
        stem = self.conv1(x)
        layer1 = self.layer1(stem)
        layer2 = self.layer2(layer1)
        layer3 = self.layer3(layer2)
        return stem, layer1, layer2, layer3, self.head(layer3)


def l2_loss(model):
    decayed = [p for name, p in model.named_parameters() if "bn" not in name]
    return 2e-4 * sum(p.pow(2).sum() / 2 for p in decayed)


def loss(model, images, labels):
    stem, layer1, layer2, layer3, logits = model(images.permute(0, 3, 1, 2).contiguous())
    cross_entropy = F.cross_entropy(logits, labels.long())
    l2 = l2_loss(model)
    return cross_entropy + l2, {
        "initial_conv": stem,
        "block_layer1": layer1,
        "block_layer2": layer2,
        "block_layer3": layer3,
        "logits": logits,
        "cross_entropy": cross_entropy,
        "l2_loss": l2,
    }


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)


def step(model, optimizer, scheduler, images, labels):
    optimizer.zero_grad()
    total, outputs = loss(model, images, labels)
    total.backward()
    optimizer.step()
    scheduler.step()
    return total, outputs
