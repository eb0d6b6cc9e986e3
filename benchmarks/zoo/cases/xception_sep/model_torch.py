"""Xception in PyTorch."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class BatchNorm2d(nn.BatchNorm2d):
    """As in the TensorFlow code, the running variance is that of the batch without Bessel's correction."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=(0, 2, 3), unbiased=False)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)


class SeparableConv2d(nn.Module):
    def __init__(self, in_channels, out_channels, dilation=1):
        super().__init__()
        self.depthwise = nn.Conv2d(in_channels, in_channels, 3, padding=dilation, dilation=dilation,
                                   groups=in_channels, bias=False)
        self.pointwise = nn.Conv2d(in_channels, out_channels, 1, bias=False)
        self.bn = BatchNorm2d(out_channels)

    def forward(self, x):
        return self.bn(self.pointwise(self.depthwise(x)))


class Stem(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2, bias=False)
        self.bn = BatchNorm2d(8)

    def forward(self, x):
        x = F.pad(x, (0, 1, 0, 1))   # SAME with stride 2 on an even size
        return F.relu(self.bn(self.conv(x)))


class EntryBlock(nn.Module):
    def __init__(self, in_channels, channels):
        super().__init__()
        self.skip = nn.Sequential(nn.Conv2d(in_channels, channels, 1, stride=2, bias=False), BatchNorm2d(channels))
        self.sep1 = SeparableConv2d(in_channels, channels)
        self.sep2 = SeparableConv2d(channels, channels)
        self.pool = nn.MaxPool2d(3, stride=2, ceil_mode=True)

    def forward(self, x):
        out = self.sep1(x)
        out = self.sep2(F.relu(out))
        return self.pool(out) + self.skip(x)


class MiddleBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.sep1 = SeparableConv2d(channels, channels)
        self.sep2 = SeparableConv2d(channels, channels)

    def forward(self, x):
        out = self.sep1(F.relu(x))
        out = self.sep2(F.relu(out, inplace=True))
        return x + out


class Model(nn.Module):
    def __init__(self, num_classes=6):
        super().__init__()
        self.stem = Stem()
        self.entry = EntryBlock(8, 12)
        self.middle = nn.Sequential(MiddleBlock(12), MiddleBlock(12))
        self.exit = SeparableConv2d(12, 20, dilation=2)
        self.fc = nn.Linear(20, num_classes)

    def forward(self, images, dropout_mask):
        x = self.stem(images.permute(0, 3, 1, 2))
        x = self.middle(self.entry(x))
        features = F.relu(self.exit(x)).mean(dim=(2, 3))
        x = features * dropout_mask if self.training else features
        return self.fc(x), features


def loss(model, images, labels, weights, dropout_mask):
    logits, features = model(images, dropout_mask)
    losses = F.cross_entropy(logits, labels, reduction="none")
    present = (weights != 0).sum().clamp(min=1)
    accuracy = (logits.argmax(dim=1) == labels).to(logits.dtype).mean()
    return (losses * weights).sum() / present, {"features": features, "logits": logits, "accuracy": accuracy}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.94)
