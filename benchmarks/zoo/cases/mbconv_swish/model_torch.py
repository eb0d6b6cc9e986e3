"""A small EfficientNet; convolutions pad as TensorFlow's SAME does, and RMSprop is TensorFlow's."""

import torch
from torch import nn
from torch.nn import functional as F


class Conv2dSame(nn.Conv2d):
    """Pads what SAME pads: on the right and bottom where the amount is odd."""

    def forward(self, x):
        pad = []
        for size, kernel, stride in zip(x.shape[:1:-1], self.kernel_size[::-1], self.stride[::-1]):
            total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            pad += [total // 2, total - total // 2]
        return super().forward(F.pad(x, pad))


class BatchNorm2d(nn.BatchNorm2d):
    """Keeps the biased variance of the batch in running_var, as the original's unfused batch norm does."""

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                var, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var, self.momentum)
            return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)


def norm(channels):
    return BatchNorm2d(channels, eps=1e-3, momentum=0.01)


class SqueezeExcite(nn.Module):
    def __init__(self, channels, reduced):
        super().__init__()
        self.conv_reduce = nn.Conv2d(channels, reduced, 1)
        self.conv_expand = nn.Conv2d(reduced, channels, 1)

    def forward(self, x):
        s = x.mean((2, 3), keepdim=True)
        s = self.conv_expand(F.silu(self.conv_reduce(s)))
        return x * torch.sigmoid(s)


class MBConv(nn.Module):
    def __init__(self, in_channels, kernel_size, stride, expand_ratio, out_channels):
        super().__init__()
        self.has_skip = stride == 1 and in_channels == out_channels
        mid = in_channels * expand_ratio
        self.conv_pw = self.bn1 = None
        if expand_ratio != 1:
            self.conv_pw = nn.Conv2d(in_channels, mid, 1, bias=False)
            self.bn1 = norm(mid)
        self.conv_dw = Conv2dSame(mid, mid, kernel_size, stride=stride, groups=mid, bias=False)
        self.bn2 = norm(mid)
        self.se = SqueezeExcite(mid, max(1, in_channels // 4))
        self.conv_pwl = nn.Conv2d(mid, out_channels, 1, bias=False)
        self.bn3 = norm(out_channels)

    def forward(self, x):
        shortcut = x
        if self.conv_pw is not None:
            x = F.silu(self.bn1(self.conv_pw(x)))
        x = F.silu(self.bn2(self.conv_dw(x)))
        x = self.bn3(self.conv_pwl(self.se(x)))
        return x + shortcut if self.has_skip else x


class Model(nn.Module):
    def __init__(self, num_classes=8):
        super().__init__()
        self.conv_stem = Conv2dSame(3, 8, 3, stride=2, bias=False)
        self.bn1 = norm(8)
        self.blocks = nn.ModuleList([
            MBConv(8, 3, 1, 1, 8),
            MBConv(8, 3, 2, 4, 12),
            MBConv(12, 5, 1, 4, 12),
            MBConv(12, 5, 2, 4, 16),
        ])
        self.conv_head = nn.Conv2d(16, 24, 1, bias=False)
        self.bn2 = norm(24)
        self.classifier = nn.Linear(24, num_classes)

    def forward(self, x):
        x = F.silu(self.bn1(self.conv_stem(x)))
        outputs = {"stem": x}
        for i, block in enumerate(self.blocks):
            x = block(x)
            outputs[f"block_{i}"] = x
        x = F.silu(self.bn2(self.conv_head(x)))
        outputs["logits"] = self.classifier(x.mean((2, 3)))
        return outputs


class RMSpropTF(torch.optim.Optimizer):
    """Epsilon inside the root, averages that begin at one, and the learning rate inside the momentum."""

    def __init__(self, params, lr, alpha=0.9, momentum=0.9, eps=1e-3):
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
                square_avg, buf = state["square_avg"], state["momentum_buffer"]
                square_avg.lerp_(p.grad.square(), 1 - group["alpha"])
                avg = (square_avg + group["eps"]).sqrt()
                buf.mul_(group["momentum"]).addcdiv_(p.grad, avg, value=group["lr"])
                p.sub_(buf)


def loss(model, images, labels):
    out = model(images.permute(0, 3, 1, 2).contiguous())
    out["cross_entropy"] = F.cross_entropy(out["logits"], labels.long(), label_smoothing=0.1)
    l2 = sum(p.square().sum() for name, p in model.named_parameters() if "bn" not in name)
    return out["cross_entropy"] + 0.5 * 1e-3 * l2, out


def optimizer(model):
    return RMSpropTF(model.parameters(), lr=0.008)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.97)
