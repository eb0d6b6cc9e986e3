"""ResNet with CBAM in its basic blocks."""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm2d(nn.BatchNorm2d):
    """nn.BatchNorm2d, but running_var follows the biased variance."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)


def norm(channels):
    return BatchNorm2d(channels, eps=1e-5, momentum=0.003)


class ChannelAttention(nn.Module):
    def __init__(self, channels, ratio=4):
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(channels, channels // ratio), nn.ReLU(), nn.Linear(channels // ratio, channels)
        )

    def forward(self, x):
        avg = self.mlp(x.mean(dim=(2, 3)))
        peak = self.mlp(x.amax(dim=(2, 3)))
        scale = torch.sigmoid(avg + peak)
        return x * scale[:, :, None, None]


class SpatialAttention(nn.Module):
    def __init__(self, kernel_size=7):
        super().__init__()
        self.conv = nn.Conv2d(2, 1, kernel_size, padding=kernel_size // 2, bias=False)

    def forward(self, x):
        pooled = torch.cat([x.mean(dim=1, keepdim=True), x.amax(dim=1, keepdim=True)], dim=1)
        return x * torch.sigmoid(self.conv(pooled))


class CBAM(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.channel_attention = ChannelAttention(channels)
        self.spatial_attention = SpatialAttention()

    def forward(self, x):
        x = self.channel_attention(x)
        return self.spatial_attention(x)


class BasicBlock(nn.Module):
    def __init__(self, inplanes, planes, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride=stride, padding=1, bias=False)
        self.bn1 = norm(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = norm(planes)
        self.cbam = CBAM(planes)
        self.downsample = None
        if stride != 1 or inplanes != planes:
            self.downsample = nn.Sequential(nn.Conv2d(inplanes, planes, 1, stride=stride, bias=False), norm(planes))

    def forward(self, x):
        residual = x
        if self.downsample is not None:
            residual = self.downsample(x)
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out = self.cbam(out)
        return F.relu(out + residual)


class Model(nn.Module):
    def __init__(self, num_classes=6):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 7, stride=2, padding=3, bias=False)
        self.bn1 = norm(8)
        self.layer1 = BasicBlock(8, 8)
        self.layer2 = BasicBlock(8, 16, stride=2)
        self.layer3 = BasicBlock(16, 24, stride=2)
        self.fc = nn.Linear(24, num_classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        # SAME pooling: the window hangs over below and on the right only
        stem = F.max_pool2d(F.pad(x, (0, 1, 0, 1), value=float("-inf")), 3, stride=2)
        block1 = self.layer1(stem)
        block2 = self.layer2(block1)
        block3 = self.layer3(block2)
        logits = self.fc(block3.mean(dim=(2, 3)))
        return {"stem": stem, "block1": block1, "block2": block2, "block3": block3, "logits": logits}


def loss(model, images, labels):
    out = model(images.permute(0, 3, 1, 2).contiguous())
    out["cross_entropy"] = F.cross_entropy(out["logits"], labels.long())
    norms = {id(p) for m in model.modules() if isinstance(m, nn.BatchNorm2d) for p in m.parameters()}
    l2 = sum(0.5 * p.square().sum() for p in model.parameters() if id(p) not in norms)
    return out["cross_entropy"] + 2e-4 * l2, out


class ClippedSGD(torch.optim.SGD):
    """SGD of gradients whose norm, taken over all of them together, is limited."""

    def __init__(self, params, max_norm, **kwargs):
        super().__init__(params, **kwargs)
        self.max_norm = max_norm

    @torch.no_grad()
    def step(self, closure=None):
        grads = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
        total = torch.stack([g.square().sum() for g in grads]).sum().sqrt()
        for g in grads:
            g.mul_(self.max_norm / total.clamp(min=self.max_norm))
        return super().step(closure)


def optimizer(model):
    return ClippedSGD(model.parameters(), max_norm=1.0, lr=0.05, momentum=0.9, nesterov=True)


def scheduler(optimizer):
    end = 0.001 / 0.05

    def factor(step):
        return (1 - end) * (1 - min(step, 10) / 10) ** 2 + end

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
