"""EfficientNet with TensorFlow's SAME padding and its RMSProp."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Conv2dSame(nn.Conv2d):
    """Pads as TensorFlow's SAME does: what is odd goes to the right and to the bottom."""

    def forward(self, x):
        pads = []
        for size, kernel, stride in zip(x.shape[:1:-1], self.kernel_size[::-1], self.stride[::-1]):
            total = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
            pads += [total // 2, total - total // 2]
        return super().forward(F.pad(x, pads))


class BatchNorm2d(nn.BatchNorm2d):
    """The running variance is moved towards the biased variance of the batch."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)


def batch_norm(channels):
    return BatchNorm2d(channels, eps=1e-3, momentum=0.01)


class SqueezeExcite(nn.Module):
    def __init__(self, channels, reduced):
        super().__init__()
        self.conv_reduce = nn.Conv2d(channels, reduced, 1)
        self.conv_expand = nn.Conv2d(reduced, channels, 1)

    def forward(self, x):
        gate = x.mean(dim=(2, 3), keepdim=True)
        gate = self.conv_expand(F.silu(self.conv_reduce(gate)))
        return x * torch.sigmoid(gate)


class MBConv(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride, expand_ratio, se_ratio=0.5, keep_prob=0.8):
        super().__init__()
        self.keep_prob = keep_prob
        self.has_residual = stride == 1 and in_channels == out_channels
        channels = in_channels * expand_ratio
        self.has_expansion = expand_ratio != 1
        if self.has_expansion:
            self.conv_pw = nn.Conv2d(in_channels, channels, 1, bias=False)
            self.bn1 = batch_norm(channels)
        self.conv_dw = Conv2dSame(channels, channels, kernel_size, stride=stride, groups=channels, bias=False)
        self.bn2 = batch_norm(channels)
        self.se = SqueezeExcite(channels, int(in_channels * se_ratio))
        self.conv_pwl = nn.Conv2d(channels, out_channels, 1, bias=False)
        self.bn3 = batch_norm(out_channels)

    def forward(self, inputs, survive):
        x = inputs
        if self.has_expansion:
            x = F.silu(self.bn1(self.conv_pw(x)))
        x = F.silu(self.bn2(self.conv_dw(x)))
        x = self.bn3(self.conv_pwl(self.se(x)))
        if self.has_residual:
            if self.training:
                x = x / self.keep_prob * survive.view(-1, 1, 1, 1)
            x = x + inputs
        return x


class Model(nn.Module):
    def __init__(self, num_classes=11):
        super().__init__()
        self.conv_stem = Conv2dSame(3, 12, 3, stride=2, bias=False)
        self.bn1 = batch_norm(12)
        self.blocks = nn.ModuleList([
            MBConv(12, 10, kernel_size=3, stride=1, expand_ratio=1),
            MBConv(10, 16, kernel_size=5, stride=2, expand_ratio=4),
            MBConv(16, 16, kernel_size=3, stride=1, expand_ratio=4),
            MBConv(16, 22, kernel_size=5, stride=2, expand_ratio=3),
            MBConv(22, 22, kernel_size=3, stride=1, expand_ratio=3),
        ])
        self.conv_head = nn.Conv2d(22, 36, 1, bias=False)
        self.bn2 = batch_norm(36)
        self.classifier = nn.Linear(36, num_classes)

    def forward(self, x, survive):
        out = {}
        x = out["stem"] = F.silu(self.bn1(self.conv_stem(x)))
        masks = iter(survive.unbind(dim=1))
        for i, block in enumerate(self.blocks):
            x = out[f"block_{i}"] = block(x, next(masks) if block.has_residual else None)
        x = F.silu(self.bn2(self.conv_head(x)))
        x = out["pooled_features"] = x.mean(dim=(2, 3))
        out["logits"] = self.classifier(x)
        return out


def loss(model, images, labels, survive):
    out = model(images.permute(0, 3, 1, 2).contiguous(), survive)
    out["cross_entropy"] = F.cross_entropy(out["logits"], labels.long(), label_smoothing=0.1)
    decayed = [p for name, p in model.named_parameters() if "bn" not in name]
    return out["cross_entropy"] + 1e-4 * 0.5 * sum(p.square().sum() for p in decayed), out


class RMSpropTF(torch.optim.Optimizer):
    """RMSProp as TensorFlow has it: epsilon in the root, averages that begin at one, the rate inside the momentum."""

    def __init__(self, params, lr, alpha=0.9, momentum=0.0, eps=1e-10):
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
                square_avg.lerp_(p.grad.square(), 1 - group["alpha"])
                scaled = p.grad / (square_avg + group["eps"]).sqrt()
                buffer.mul_(group["momentum"]).add_(scaled, alpha=group["lr"])
                p.sub_(buffer)


def optimizer(model):
    return RMSpropTF(model.parameters(), lr=0.008, alpha=0.9, momentum=0.9, eps=1e-3)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.9)
