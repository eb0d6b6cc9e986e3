import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class BatchNorm2d(nn.BatchNorm2d):
    """Batch norm that keeps the biased variance, without the factor n / (n - 1) of torch's own."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            var, mean = torch.var_mean(x, (0, 2, 3), correction=0)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)


def conv3x3(inp, oup, stride=1):
    return nn.Conv2d(inp, oup, 3, stride, 1, bias=False)


def conv1x1(inp, oup):
    return nn.Conv2d(inp, oup, 1, bias=False)


class BlurPool(nn.Module):
    def __init__(self, channels, stride=2):
        super().__init__()
        self.stride, self.channels = stride, channels
        a = torch.tensor([1.0, 2.0, 1.0])
        filt = a[:, None] * a[None, :]
        self.register_buffer("filt", (filt / filt.sum())[None, None].repeat(channels, 1, 1, 1))

    def forward(self, x):
        x = F.pad(x, (1, 1, 1, 1), mode="reflect")
        return F.conv2d(x, self.filt, stride=self.stride, groups=self.channels)


class SelectiveKernel(nn.Module):
    def __init__(self, planes, r=2, L=6):
        super().__init__()
        d = max(planes // r, L)
        self.split = nn.Sequential(conv3x3(planes, 2 * planes), BatchNorm2d(2 * planes), nn.ReLU(inplace=True))
        self.fuse = nn.Sequential(conv1x1(planes, d), BatchNorm2d(d), nn.ReLU(inplace=True))
        self.select = conv1x1(d, 2 * planes)

    def forward(self, x):
        x = self.split(x)
        x = x.view(x.size(0), 2, -1, x.size(2), x.size(3))
        z = self.fuse(x.sum(1).mean((2, 3), keepdim=True))
        attention = self.select(z).view(x.size(0), 2, -1, 1, 1)
        return (x * torch.softmax(attention, dim=1)).sum(1)


class Shortcut(nn.Module):
    """ResNet-D's projection: averages first where it is strided."""

    def __init__(self, inp, oup, stride):
        super().__init__()
        self.stride = stride
        self.conv = conv1x1(inp, oup)
        self.bn = BatchNorm2d(oup)

    def forward(self, x):
        if self.stride > 1:
            x = F.avg_pool2d(x, 2, self.stride, ceil_mode=True, count_include_pad=False)
        return self.bn(self.conv(x))


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, inplanes, planes, stride=1, project=False):
        super().__init__()
        self.downsample = Shortcut(inplanes, 4 * planes, stride) if project else None
        self.conv1 = conv1x1(inplanes, planes)
        self.bn1 = BatchNorm2d(planes)
        self.conv2 = SelectiveKernel(planes)
        self.blur = BlurPool(planes, stride) if stride > 1 else None
        self.conv3 = conv1x1(planes, 4 * planes)
        self.bn3 = BatchNorm2d(4 * planes)
        nn.init.zeros_(self.bn3.weight)

    def forward(self, x):
        residual = x if self.downsample is None else self.downsample(x)
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.conv2(out)
        if self.blur is not None:
            out = self.blur(out)
        out = self.bn3(self.conv3(out))
        out += residual
        return F.relu(out)


class ResNet(nn.Module):
    def __init__(self, layers, num_classes):
        super().__init__()
        self.conv1 = nn.Sequential(
            conv3x3(3, 6, 2), BatchNorm2d(6), nn.ReLU(inplace=True),
            conv3x3(6, 6), BatchNorm2d(6), nn.ReLU(inplace=True),
            conv3x3(6, 12), BatchNorm2d(12), nn.ReLU(inplace=True),
        )
        self.inplanes = 12
        self.layer1 = self._make_layer(6, layers[0], 1)
        self.layer2 = self._make_layer(10, layers[1], 2)
        self.fc = nn.Linear(self.inplanes, num_classes)

    def _make_layer(self, planes, blocks, stride):
        layers = [Bottleneck(self.inplanes, planes, stride, project=True)]
        self.inplanes = planes * Bottleneck.expansion
        layers += [Bottleneck(self.inplanes, planes) for _ in range(1, blocks)]
        return nn.Sequential(*layers)

    def forward(self, x):
        x = self.conv1(x)
        # SAME: the odd row and column are at the end, and all is positive here
        bottom, right = 1 - x.size(2) % 2, 1 - x.size(3) % 2
        stem = F.max_pool2d(F.pad(x, (1 - right, 1, 1 - bottom, 1)), 3, 2)
        layer1 = self.layer1(stem)
        layer2 = self.layer2(layer1)
        return stem, layer1, layer2, self.fc(layer2.mean((2, 3)))


def resnet_d():
    return ResNet([1, 2], num_classes=9)


def mixup_criterion(logits, labels_a, labels_b, lam, smoothing=0.1):
    loss_a = F.cross_entropy(logits, labels_a, reduction="none", label_smoothing=smoothing)
    loss_b = F.cross_entropy(logits, labels_b, reduction="none", label_smoothing=smoothing)
    return (lam * loss_a + (1 - lam) * loss_b).mean()


def loss(model, images, labels_a, labels_b, lam):
    images = images.permute(0, 3, 1, 2)
    stem, layer1, layer2, logits = model(images)
    cross_entropy = mixup_criterion(logits, labels_a.long(), labels_b.long(), lam)
    l2 = sum(m.weight.norm() ** 2 for m in model.modules() if isinstance(m, (nn.Conv2d, nn.Linear)))
    l2 = l2 + sum(m.bias.norm() ** 2 for m in model.modules() if isinstance(m, nn.Linear))
    outputs = {"stem": stem, "block_layer1": layer1, "block_layer2": layer2, "logits": logits, "cross_entropy": cross_entropy}
    return cross_entropy + 1e-4 / 2 * l2, outputs


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def scheduler(optimizer, decay_steps=6):
    def cosine(step):
        return 0.5 * (1 + math.cos(math.pi * min(step, decay_steps) / decay_steps))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, cosine)


def step(model, optimizer, scheduler, images, labels_a, labels_b, lam):
    total, outputs = loss(model, images, labels_a, labels_b, lam)
    optimizer.zero_grad(set_to_none=True)
    total.backward()
    optimizer.step()
    scheduler.step()
    return total, outputs
