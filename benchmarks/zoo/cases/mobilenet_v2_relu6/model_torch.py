import torch
import torch.nn as nn
import torch.nn.functional as F

WEIGHT_DECAY = 4e-4


class Conv2dSame(nn.Conv2d):
    """TensorFlow's SAME: what is odd in the padding goes to the bottom and to the right."""

    def forward(self, x):
        pads = []
        for size, k, s in zip(reversed(x.shape[-2:]), reversed(self.kernel_size), reversed(self.stride)):
            total = max((-(size // -s) - 1) * s + k - size, 0)
            pads += [total // 2, total - total // 2]
        return F.conv2d(F.pad(x, pads), self.weight, self.bias, self.stride, 0, 1, self.groups)


class ConvBNReLU(nn.Sequential):
    def __init__(self, inp, oup, kernel_size=3, stride=1, groups=1):
        super().__init__(
            Conv2dSame(inp, oup, kernel_size, stride, groups=groups, bias=False),
            nn.BatchNorm2d(oup, eps=1e-3, momentum=0.1),
            nn.ReLU6(inplace=True),
        )


class InvertedResidual(nn.Module):
    def __init__(self, inp, oup, stride, expand_ratio):
        super().__init__()
        hidden = inp * expand_ratio
        self.use_res_connect = stride == 1 and inp == oup
        layers = []
        if expand_ratio != 1:
            layers.append(ConvBNReLU(inp, hidden, kernel_size=1))
        layers += [
            ConvBNReLU(hidden, hidden, stride=stride, groups=hidden),
            nn.Conv2d(hidden, oup, 1, bias=False),
            nn.BatchNorm2d(oup, eps=1e-3, momentum=0.1),
        ]
        self.conv = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


class MobileNetV2(nn.Module):
    def __init__(self, num_classes, setting, stem=8, last=24):
        super().__init__()
        features = [ConvBNReLU(3, stem, stride=2)]
        channels = stem
        for t, c, n, s in setting:
            for i in range(n):
                features.append(InvertedResidual(channels, c, s if i == 0 else 1, t))
                channels = c
        features.append(ConvBNReLU(channels, last, kernel_size=1))
        self.features = nn.ModuleList(features)
        self.classifier = nn.Linear(last, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.trunc_normal_(m.weight, std=0.09)

    def forward(self, x):
        maps = []
        for layer in self.features:
            x = layer(x)
            maps.append(x)
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        return maps[:-1], self.classifier(x)


def mobilenet_v2():
    return MobileNetV2(6, [(1, 6, 1, 1), (4, 8, 2, 2), (4, 12, 2, 2)])


def penalty(model):
    """Half the squares of dense and pointwise kernels; depthwise ones, biases and batch norm are left alone."""
    total = 0.0
    for module in model.modules():
        if isinstance(module, nn.Linear) or (isinstance(module, nn.Conv2d) and module.groups == 1):
            total = total + 0.5 * module.weight.pow(2).sum()
    return WEIGHT_DECAY * total


def loss(model, images, labels):
    maps, logits = model(images.permute(0, 3, 1, 2).contiguous())
    cross_entropy = F.cross_entropy(logits, labels.long(), label_smoothing=0.1)
    outputs = {"stem": maps[0], "logits": logits, "cross_entropy": cross_entropy}
    outputs.update({f"block_{i}": block for i, block in enumerate(maps[1:])})
    return cross_entropy + penalty(model), outputs


class RMSpropTF(torch.optim.Optimizer):
    """RMSprop as TensorFlow has it: the average starts at one, epsilon is under the root, the rate goes into the momentum."""

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
                square_avg, buf = state["square_avg"], state["momentum_buffer"]
                square_avg.add_(p.grad.pow(2) - square_avg, alpha=1 - group["alpha"])
                avg = square_avg.add(group["eps"]).sqrt_()
                buf.mul_(group["momentum"]).addcdiv_(p.grad, avg, value=group["lr"])
                p.sub_(buf)


def optimizer(model):
    return RMSpropTF(model.parameters(), lr=0.045, alpha=0.9, momentum=0.9, eps=1.0)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.98)
