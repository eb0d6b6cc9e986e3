"""NASNet-A for small pictures."""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm(nn.BatchNorm2d):
    """The running variance follows the biased variance of the batch."""

    def __init__(self, channels):
        super().__init__(channels, eps=1e-3, momentum=0.1)

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                variance, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance, self.momentum)
            return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)
        return super().forward(x)


class DepthwiseSeparable(nn.Module):
    def __init__(self, channels, kernel, stride):
        super().__init__()
        # with stride 2 the odd row and column of padding are at the bottom and right
        before, after = (kernel // 2, kernel // 2) if stride == 1 else ((kernel - 2) // 2, (kernel - 1) // 2)
        self.pad = (before, after, before, after)
        self.depthwise = nn.Conv2d(channels, channels, kernel, stride=stride, groups=channels, bias=False)
        self.pointwise = nn.Conv2d(channels, channels, 1, bias=False)
        self.bn = BatchNorm(channels)

    def forward(self, x):
        x = F.pad(F.relu(x), self.pad)
        return self.bn(self.pointwise(self.depthwise(x)))


def separable(kernel):
    return lambda channels, stride: nn.Sequential(
        DepthwiseSeparable(channels, kernel, stride), DepthwiseSeparable(channels, kernel, 1))


def average(channels, stride):
    if stride == 1:
        return nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)
    return nn.AvgPool2d(3, stride=2, ceil_mode=True)


OPERATIONS = {
    "sep3": separable(3),
    "sep5": separable(5),
    "sep7": separable(7),
    "avg": average,
    "max": lambda channels, stride: nn.MaxPool2d(3, stride=2, ceil_mode=True),
    "skip": lambda channels, stride: nn.Identity(),
}

# pairs of (operation, state), and which states go out
NORMAL = (
    [("sep5", 0), ("sep3", 1), ("sep5", 1), ("sep3", 1), ("avg", 0), ("skip", 1), ("avg", 1), ("avg", 1), ("sep3", 0), ("skip", 0)],
    [1, 2, 3, 4, 5, 6],
)
REDUCTION = (
    [("sep5", 0), ("sep7", 1), ("max", 0), ("sep7", 1), ("avg", 0), ("sep5", 1), ("skip", 3), ("avg", 2), ("sep3", 2), ("max", 0)],
    [3, 4, 5, 6],
)


class Squeeze(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 1, bias=False)
        self.bn = BatchNorm(outputs)

    def forward(self, x):
        return self.bn(self.conv(F.relu(x)))


class FactorizedReduction(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.even = nn.Conv2d(inputs, outputs // 2, 1, stride=2, bias=False)
        self.odd = nn.Conv2d(inputs, outputs // 2, 1, stride=2, bias=False)
        self.bn = BatchNorm(outputs)

    def forward(self, x):
        x = F.relu(x)
        return self.bn(torch.cat([self.even(x), self.odd(x[:, :, 1:, 1:])], dim=1))


class Cell(nn.Module):
    def __init__(self, inputs, previous, channels, genotype, stride=1, halve_previous=False):
        super().__init__()
        self.plan, self.out = genotype
        self.squeeze = Squeeze(inputs, channels)
        self.adjust = (FactorizedReduction if halve_previous else Squeeze)(previous, channels)
        self.ops = nn.ModuleList(OPERATIONS[name](channels, stride if state < 2 else 1) for name, state in self.plan)

    def forward(self, x, previous, keep):
        states = [self.squeeze(x), self.adjust(previous)]
        pending = None
        for i, ((name, state), op) in enumerate(zip(self.plan, self.ops)):
            y = op(states[state])
            if self.training and name != "skip":
                y = y * keep[:, i].view(-1, 1, 1, 1)
            if pending is None:
                pending = y
            else:
                states.append(pending + y)
                pending = None
        return torch.cat([states[i] for i in self.out], dim=1)


class AuxiliaryHead(nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        self.project = nn.Conv2d(inputs, 8, 1, bias=False)
        self.bn1 = BatchNorm(8)
        self.reduce = nn.Conv2d(8, 12, 3, bias=False)
        self.bn2 = BatchNorm(12)
        self.fc = nn.Linear(12, classes)

    def forward(self, x):
        x = F.avg_pool2d(F.relu(x), 5, stride=3)
        x = F.relu(self.bn1(self.project(x)))
        x = F.relu(self.bn2(self.reduce(x)))
        return self.fc(x.flatten(1))


class Model(nn.Module):
    def __init__(self, classes=6):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), BatchNorm(8))
        self.normal1 = Cell(8, 8, 4, NORMAL)
        self.reduction = Cell(24, 8, 8, REDUCTION, stride=2)
        self.normal2 = Cell(32, 24, 8, NORMAL, halve_previous=True)
        self.auxiliary = AuxiliaryHead(24, classes)
        self.classifier = nn.Linear(48, classes)

    def forward(self, images, keep):
        stem = self.stem(images.permute(0, 3, 1, 2))
        first = self.normal1(stem, stem, keep[:, 0])
        second = self.reduction(first, stem, keep[:, 1])
        third = self.normal2(second, first, keep[:, 2])
        aux_logits = self.auxiliary(first)
        logits = self.classifier(F.relu(third).mean(dim=(2, 3)))
        return {"cell_0": first, "cell_1": second, "cell_2": third, "logits": logits, "aux_logits": aux_logits}


def loss(model, images, labels, keep):
    outputs = model(images, keep)
    labels = labels.long()
    main = F.cross_entropy(outputs["logits"], labels, label_smoothing=0.1)
    auxiliary = F.cross_entropy(outputs["aux_logits"], labels, label_smoothing=0.1)
    l2 = sum(p.square().sum() for p in model.parameters() if p.dim() > 1)
    return main + 0.4 * auxiliary + 0.5 * 4e-5 * l2, outputs


class RMSpropTF(torch.optim.Optimizer):
    """RMSprop with TensorFlow's habits: squares begin at one, epsilon is under the root, the rate is in the momentum."""

    def __init__(self, params, lr, alpha=0.9, momentum=0.9, eps=1.0):
        super().__init__(params, dict(lr=lr, alpha=alpha, momentum=momentum, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["square_avg"] = torch.ones_like(p)
                    state["momentum_buffer"] = torch.zeros_like(p)
                square_avg, buffer = state["square_avg"], state["momentum_buffer"]
                square_avg.add_(p.grad.square() - square_avg, alpha=1 - group["alpha"])
                scaled = p.grad / (square_avg + group["eps"]).sqrt()
                buffer.mul_(group["momentum"]).add_(scaled, alpha=group["lr"])
                p.sub_(buffer)


def optimizer(model):
    return RMSpropTF(model.parameters(), lr=0.02, alpha=0.9, momentum=0.9, eps=1.0)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.9)
