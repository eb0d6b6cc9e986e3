"""MobileNetV3 for PyTorch, with SAME padding as in TensorFlow and TensorFlow's RMSProp."""
import torch
from torch import nn
from torch.nn import functional as F


class Conv2dSame(nn.Conv2d):
    """Pads as TensorFlow's SAME does: the odd row and column are at the end."""

    def forward(self, x):
        (kh, kw), (sh, sw) = self.kernel_size, self.stride
        ph = max((-(-x.size(2) // sh) - 1) * sh + kh - x.size(2), 0)
        pw = max((-(-x.size(3) // sw) - 1) * sw + kw - x.size(3), 0)
        if ph > 0 or pw > 0:
            x = F.pad(x, [pw // 2, pw - pw // 2, ph // 2, ph - ph // 2])
        return F.conv2d(x, self.weight, self.bias, self.stride, 0, 1, self.groups)


class BatchNorm2d(nn.BatchNorm2d):
    """The running variance follows the biased one."""

    def __init__(self, channels):
        super().__init__(channels, eps=1e-3, momentum=0.05)

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                var, mean = torch.var_mean(x, dim=(0, 2, 3), unbiased=False)
                self.running_mean.mul_(1 - self.momentum).add_(mean, alpha=self.momentum)
                self.running_var.mul_(1 - self.momentum).add_(var, alpha=self.momentum)
            return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)


def conv_bn(inp, oup, kernel, stride, act):
    layers = [Conv2dSame(inp, oup, kernel, stride, bias=False), BatchNorm2d(oup)]
    return nn.Sequential(*layers, act()) if act is not None else nn.Sequential(*layers)


class SqueezeExcite(nn.Module):
    def __init__(self, channels, reduction=4):
        super().__init__()
        squeezed = max(4, channels // reduction)
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, channels, 1)

    def forward(self, x):
        scale = F.adaptive_avg_pool2d(x, 1)
        scale = self.fc2(F.relu(self.fc1(scale), inplace=True))
        return x * (F.relu6(scale + 3.0) * 0.16667)  # as the slim code writes it


class InvertedResidual(nn.Module):
    def __init__(self, inp, hidden, oup, kernel, stride, use_se, act):
        super().__init__()
        self.identity = stride == 1 and inp == oup
        self.expand = conv_bn(inp, hidden, 1, 1, act) if hidden != inp else nn.Identity()
        self.dwconv = Conv2dSame(hidden, hidden, kernel, stride, groups=hidden, bias=False)
        self.dwbn = BatchNorm2d(hidden)
        self.act = act()
        self.se = SqueezeExcite(hidden) if use_se else nn.Identity()
        self.project = conv_bn(hidden, oup, 1, 1, None)

    def forward(self, x):
        out = self.dwbn(self.dwconv(self.expand(x)))
        out = self.se(self.act(out))
        out = self.project(out)
        return x + out if self.identity else out


class MobileNetV3(nn.Module):
    def __init__(self, cfgs, num_classes):
        super().__init__()
        channels = 8
        self.stem = conv_bn(3, channels, 3, 2, nn.Hardswish)
        blocks = []
        for kernel, hidden, oup, use_se, use_hs, stride in cfgs:
            blocks.append(InvertedResidual(channels, hidden, oup, kernel, stride, use_se, nn.Hardswish if use_hs else nn.ReLU))
            channels = oup
        self.blocks = nn.Sequential(*blocks)
        self.conv = conv_bn(channels, 48, 1, 1, nn.Hardswish)
        self.classifier = nn.Sequential(nn.Linear(48, 64), nn.Hardswish(), nn.Linear(64, num_classes))
        self._initialize_weights()

    def _initialize_weights(self):
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out")
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
            elif isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, 0, 0.01)
                nn.init.zeros_(m.bias)

    def forward(self, x):
        stem = self.stem(x)
        features = self.blocks(stem)
        x = self.conv(features).mean([2, 3])
        return stem, features, self.classifier(x)


def mobilenet_v3_small():
    cfgs = [
        # k, hidden, c, SE, HS, s
        (3, 8, 8, True, False, 1),
        (3, 24, 12, False, False, 2),
        (3, 32, 12, False, False, 1),
        (5, 40, 16, True, True, 2),
        (5, 48, 16, True, True, 1),
    ]
    return MobileNetV3(cfgs, num_classes=7)


class CrossEntropyLabelSmooth(nn.Module):
    def __init__(self, num_classes, epsilon):
        super().__init__()
        self.num_classes, self.epsilon = num_classes, epsilon

    def forward(self, logits, targets):
        log_probs = F.log_softmax(logits, dim=1)
        targets = F.one_hot(targets, self.num_classes).to(logits.dtype)
        targets = (1 - self.epsilon) * targets + self.epsilon / self.num_classes
        return -(targets * log_probs).sum(1).mean()


criterion = CrossEntropyLabelSmooth(num_classes=7, epsilon=0.1)


def is_decayed(name, p):
    """Weights of dense convolutions and linear layers; neither depthwise ones nor batch norm's nor biases."""
    return p.dim() > 1 and "dwconv" not in name


def loss(model, images, labels):
    stem, features, logits = model(images.permute(0, 3, 1, 2))
    cross_entropy = criterion(logits, labels.long())
    l2 = sum(p.pow(2).sum() for name, p in model.named_parameters() if is_decayed(name, p))
    outputs = {"stem": stem, "features": features, "logits": logits, "cross_entropy": cross_entropy}
    return cross_entropy + 0.5 * 4e-5 * l2, outputs


class RMSpropTF(torch.optim.Optimizer):
    """RMSProp as TensorFlow has it: squares begin at one, epsilon stands under the root, momentum takes the scaled step."""

    def __init__(self, params, lr=0.01, alpha=0.9, eps=1e-10, momentum=0.0):
        super().__init__(params, dict(lr=lr, alpha=alpha, eps=eps, momentum=momentum))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["square_avg"] = torch.ones_like(p)
                    state["momentum_buffer"] = torch.zeros_like(p)
                square_avg, buf = state["square_avg"], state["momentum_buffer"]
                square_avg.add_(p.grad.pow(2) - square_avg, alpha=1.0 - group["alpha"])
                avg = square_avg.add(group["eps"]).sqrt_()
                buf.mul_(group["momentum"]).addcdiv_(p.grad, avg, value=group["lr"])
                p.sub_(buf)


def optimizer(model):
    return RMSpropTF(model.parameters(), lr=0.01, alpha=0.9, eps=0.002, momentum=0.9)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.7 ** (step // 2))
