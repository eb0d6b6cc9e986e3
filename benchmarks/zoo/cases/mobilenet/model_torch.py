"""MobileNet v1 with TensorFlow's padding and batch norm."""

from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional as F


class Conv2dSame(nn.Conv2d):
    """Pads as much as the output size asks for, the odd pixel on the right and at the bottom."""

    def forward(self, x):
        pads = []
        for size, kernel, stride in zip(reversed(x.shape[-2:]), reversed(self.kernel_size), reversed(self.stride)):
            total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            pads += [total // 2, total - total // 2]
        return super().forward(F.pad(x, pads))


class BatchNorm2d(nn.BatchNorm2d):
    """running_var moves towards the biased variance."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
            self.running_mean += self.momentum * (mean - self.running_mean)
            self.running_var += self.momentum * (var - self.running_var)
        return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)


def conv_bn(inp, oup, kernel_size, stride, groups=1):
    return nn.Sequential(
        Conv2dSame(inp, oup, kernel_size, stride, groups=groups, bias=False),
        BatchNorm2d(oup, eps=1e-3, momentum=0.05),
        nn.ReLU6(inplace=True),
    )


class DepthwiseSeparable(nn.Module):
    def __init__(self, inp, oup, stride):
        super().__init__()
        self.depthwise = conv_bn(inp, inp, 3, stride, groups=inp)
        self.pointwise = conv_bn(inp, oup, 1, 1)

    def forward(self, x):
        return self.pointwise(self.depthwise(x))


class Model(nn.Module):
    def __init__(self, num_classes=8):
        super().__init__()
        self.features = nn.Sequential(
            OrderedDict(
                stem=conv_bn(3, 8, 3, 2),
                block1=DepthwiseSeparable(8, 16, 1),
                block2=DepthwiseSeparable(16, 24, 2),
                block3=DepthwiseSeparable(24, 24, 1),
                block4=DepthwiseSeparable(24, 48, 2),
            )
        )
        self.classifier = nn.Linear(48, num_classes)

    def forward(self, x):
        maps = []
        for layer in self.features:
            x = layer(x)
            maps.append(x)
        return maps, self.classifier(F.adaptive_avg_pool2d(x, 1).flatten(1))


def loss(model, images, labels):
    maps, logits = model(images.permute(0, 3, 1, 2).contiguous())
    outputs = {f"Conv2d_{i}": x for i, x in enumerate(maps)}
    outputs["logits"] = logits
    return F.cross_entropy(logits, labels, label_smoothing=0.1), outputs
