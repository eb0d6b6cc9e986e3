"""GhostNet, a small one, with TensorFlow's SAME padding and its RMSProp."""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm2d(nn.BatchNorm2d):
    """Moves its statistics by the biased variance, as unfused batch norm does."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)


def norm(channels):
    return BatchNorm2d(channels, eps=1e-3, momentum=0.1)


class Conv2dSame(nn.Conv2d):
    """Pads what TensorFlow pads: the odd pixel below and on the right."""

    def forward(self, x):
        pads = []
        for size, kernel, stride in zip(x.shape[:1:-1], self.kernel_size[::-1], self.stride[::-1]):
            total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            pads += [total // 2, total - total // 2]
        return super().forward(F.pad(x, pads))


def conv_bn(cin, cout, k, stride=1, groups=1):
    return nn.Sequential(Conv2dSame(cin, cout, k, stride, groups=groups, bias=False), norm(cout))


class GhostModule(nn.Module):
    def __init__(self, cin, cout, relu=True):
        super().__init__()
        half = cout // 2
        self.primary_conv = conv_bn(cin, half, 1)
        self.cheap_operation = conv_bn(half, half, 3, groups=half)
        self.relu = relu

    def forward(self, x):
        x1 = self.primary_conv(x)
        if self.relu:
            x1 = F.relu(x1)
        x2 = self.cheap_operation(x1)
        if self.relu:
            x2 = F.relu(x2)
        return torch.cat([x1, x2], dim=1)


class SqueezeExcite(nn.Module):
    def __init__(self, channels, reduction=4):
        super().__init__()
        self.conv_reduce = nn.Conv2d(channels, channels // reduction, 1)
        self.conv_expand = nn.Conv2d(channels // reduction, channels, 1)

    def forward(self, x):
        scale = x.mean(dim=(2, 3), keepdim=True)
        scale = F.relu(self.conv_reduce(scale))
        scale = F.relu6(self.conv_expand(scale) + 3.0) / 6.0
        return x * scale


class GhostBottleneck(nn.Module):
    def __init__(self, cin, hidden, cout, k, stride, use_se):
        super().__init__()
        self.ghost1 = GhostModule(cin, hidden)
        self.conv_dw = conv_bn(hidden, hidden, k, stride, groups=hidden) if stride > 1 else None
        self.se = SqueezeExcite(hidden) if use_se else None
        self.ghost2 = GhostModule(hidden, cout, relu=False)
        self.shortcut = None
        if stride > 1 or cin != cout:
            self.shortcut = nn.Sequential(conv_bn(cin, cin, k, stride, groups=cin), conv_bn(cin, cout, 1))

    def forward(self, x):
        identity = x if self.shortcut is None else self.shortcut(x)
        x = self.ghost1(x)
        if self.conv_dw is not None:
            x = self.conv_dw(x)
        if self.se is not None:
            x = self.se(x)
        return self.ghost2(x) + identity


class Model(nn.Module):
    def __init__(self, num_classes=8):
        super().__init__()
        self.conv_stem = conv_bn(3, 8, 3)
        self.block1 = GhostBottleneck(8, 16, 8, 3, 1, use_se=False)
        self.block2 = GhostBottleneck(8, 24, 12, 3, 2, use_se=True)
        self.block3 = GhostBottleneck(12, 36, 16, 5, 2, use_se=True)
        self.conv_head = conv_bn(16, 32, 1)
        self.feature = nn.Conv2d(32, 40, 1)
        self.classifier = nn.Linear(40, num_classes)

    def forward(self, x):
        out = {"stem": F.relu(self.conv_stem(x))}
        out["block1"] = self.block1(out["stem"])
        out["block2"] = self.block2(out["block1"])
        out["block3"] = self.block3(out["block2"])
        x = F.relu(self.conv_head(out["block3"]))
        x = F.adaptive_avg_pool2d(x, 1)
        x = F.relu(self.feature(x))
        out["logits"] = self.classifier(x.flatten(1))
        return out


def decayed(model):
    return [p for p in model.parameters() if p.ndim > 1]


def loss(model, images, labels):
    out = model(images.permute(0, 3, 1, 2).contiguous())
    out["xent"] = F.cross_entropy(out["logits"], labels.long(), label_smoothing=0.1)
    l2 = sum(p.square().sum() / 2 for p in decayed(model))
    return out["xent"] + 1e-4 * l2, out


class RMSpropTF(torch.optim.Optimizer):
    """RMSProp as TensorFlow 1 has it: mean squares begin with one, epsilon is under the root, and the momentum buffer
    holds steps, learning rate included."""

    def __init__(self, params, lr, alpha=0.9, eps=1e-10, momentum=0.0):
        super().__init__(params, {"lr": lr, "alpha": alpha, "eps": eps, "momentum": momentum})

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
                square_avg, buf = state["square_avg"], state["momentum_buffer"]
                square_avg.add_(p.grad.square() - square_avg, alpha=1 - group["alpha"])
                avg = square_avg.add(group["eps"]).sqrt_()
                buf.mul_(group["momentum"]).addcdiv_(p.grad, avg, value=group["lr"])
                p.sub_(buf)


def optimizer(model):
    return RMSpropTF(model.parameters(), lr=0.01, alpha=0.9, eps=1e-3, momentum=0.9)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
