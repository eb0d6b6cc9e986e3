import torch
from torch import nn
from torch.nn import functional as F


class TFBatchNorm2d(nn.BatchNorm2d):
    """nn.BatchNorm2d with TensorFlow's epsilon, and with the variance of the batch itself in the running one."""

    def __init__(self, num_features):
        super().__init__(num_features, eps=1e-3, momentum=0.1)

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False)
        with torch.no_grad():
            self.running_mean += self.momentum * (mean - self.running_mean)
            self.running_var += self.momentum * (var - self.running_var)
        x = (x - mean.view(1, -1, 1, 1)) / torch.sqrt(var.view(1, -1, 1, 1) + self.eps)
        return x * self.weight.view(1, -1, 1, 1) + self.bias.view(1, -1, 1, 1)


def pad_same(x, kernel, stride, value=0.0):
    h, w = x.shape[-2:]
    pad_h = max((-(-h // stride) - 1) * stride + kernel - h, 0)
    pad_w = max((-(-w // stride) - 1) * stride + kernel - w, 0)
    return F.pad(x, (pad_w // 2, pad_w - pad_w // 2, pad_h // 2, pad_h - pad_h // 2), value=value)


class ConvBN(nn.Module):
    def __init__(self, inp, oup, kernel, stride=1, groups=1, relu=True):
        super().__init__()
        self.kernel, self.stride, self.relu = kernel, stride, relu
        self.conv = nn.Conv2d(inp, oup, kernel, stride, groups=groups, bias=False)
        self.bn = TFBatchNorm2d(oup)

    def forward(self, x):
        if self.kernel > 1:
            x = pad_same(x, self.kernel, self.stride)
        x = self.bn(self.conv(x))
        return F.relu(x) if self.relu else x


def unit(inp, oup, stride):
    return nn.Sequential(
        ConvBN(inp, inp, 1),
        ConvBN(inp, inp, 3, stride, groups=inp, relu=False),
        ConvBN(inp, oup, 1),
    )


class Stage(nn.Module):
    def __init__(self, inp, oup, repeats):
        super().__init__()
        half = oup // 2
        self.down_main = unit(inp, half, stride=2)
        self.down_side = nn.Sequential(ConvBN(inp, inp, 3, 2, groups=inp, relu=False), ConvBN(inp, half, 1))
        self.units = nn.ModuleList([unit(half, half, stride=1) for _ in range(repeats - 1)])

    @staticmethod
    def shuffle(x, y):
        """Interleaves the channels of both streams and halves them again."""
        n, c, h, w = x.shape
        z = torch.stack([x, y], dim=2).reshape(n, 2 * c, h, w)
        return z.chunk(2, dim=1)

    def forward(self, x):
        x, y = self.down_side(x), self.down_main(x)
        for branch in self.units:
            x, y = self.shuffle(x, y)
            x = branch(x)
        return torch.cat([x, y], dim=1)


class ShuffleNetV2(nn.Module):
    def __init__(self, num_classes=8):
        super().__init__()
        self.conv1 = ConvBN(3, 8, 3, 2)
        self.stage2 = Stage(8, 16, 3)
        self.stage3 = Stage(16, 32, 3)
        self.conv5 = ConvBN(32, 48, 1)
        self.fc = nn.Linear(48, num_classes)
        for m in self.modules():
            if isinstance(m, (nn.Conv2d, nn.Linear)):
                nn.init.xavier_uniform_(m.weight)
        nn.init.zeros_(self.fc.bias)

    def forward(self, images):
        x = self.conv1(2.0 * images - 1.0)
        x = F.max_pool2d(pad_same(x, 3, 2, value=float("-inf")), 3, 2)
        stage2 = self.stage2(x)
        stage3 = self.stage3(stage2)
        x = self.conv5(stage3)
        return stage2, stage3, self.fc(x.mean([2, 3]))


def loss(model, images, labels):
    stage2, stage3, logits = model(images.permute(0, 3, 1, 2).contiguous())
    cross_entropy = F.cross_entropy(logits, labels.long())
    l2 = 0.0
    for m in model.modules():
        depthwise = isinstance(m, nn.Conv2d) and m.groups > 1
        if isinstance(m, (nn.Conv2d, nn.Linear)) and not depthwise:
            l2 = l2 + 0.5 * m.weight.square().sum()
    outputs = {"stage2": stage2, "stage3": stage3, "logits": logits, "cross_entropy": cross_entropy}
    return cross_entropy + 1e-3 * l2, outputs


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.08, momentum=0.9)


def learning_rate(step, initial=0.08, end=0.004, decay_steps=5):
    done = min(step, decay_steps) / decay_steps
    return (initial - end) * (1 - done) + end
