import math

import torch
from torch import nn
from torch.nn import functional as F

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


class BatchNorm(nn.BatchNorm2d):
    """Batch norm with eps and momentum of the original, whose running variance is that of the batch without correction."""

    def __init__(self, channels):
        super().__init__(channels, eps=1e-3, momentum=0.01)

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                mean = x.mean((0, 2, 3))
                var = x.var((0, 2, 3), unbiased=False)
                self.running_mean.mul_(1 - self.momentum).add_(mean, alpha=self.momentum)
                self.running_var.mul_(1 - self.momentum).add_(var, alpha=self.momentum)
            return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)


class SeparableConv(nn.Module):
    def __init__(self, cin, cout, stride=1, bias=False):
        super().__init__()
        self.stride = stride
        self.depthwise = nn.Conv2d(cin, cin, 3, stride, padding=1 if stride == 1 else 0, groups=cin, bias=False)
        self.pointwise = nn.Conv2d(cin, cout, 1, bias=bias)

    def forward(self, x):
        if self.stride == 2:
            x = F.pad(x, (0, 1, 0, 1))
        return self.pointwise(self.depthwise(x))


class MaxPool(nn.Module):
    """3 x 3 with a stride of 2; even maps are padded at the right and at the bottom."""

    def forward(self, x):
        return F.max_pool2d(F.pad(x, (0, 1, 0, 1), value=float("-inf")), 3, stride=2)


class Stage(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.down = nn.Sequential(SeparableConv(cin, cout, stride=2), BatchNorm(cout), nn.SiLU())
        self.conv = nn.Sequential(SeparableConv(cout, cout), BatchNorm(cout), nn.SiLU())

    def forward(self, x):
        x = self.down(x)
        return x + self.conv(x)


class Backbone(nn.Module):
    def __init__(self, widths=(8, 12, 18)):
        super().__init__()
        self.stem = nn.Conv2d(3, widths[0], 3, stride=2, bias=False)
        self.norm = BatchNorm(widths[0])
        self.stage3 = Stage(widths[0], widths[1])
        self.stage4 = Stage(widths[1], widths[2])

    def forward(self, x):
        x = F.silu(self.norm(self.stem(F.pad(x, (0, 1, 0, 1)))))
        c3 = self.stage3(x)
        return c3, self.stage4(c3)


class FusionNode(nn.Module):
    """Weighs its inputs by positive weights that add up to one, nearly, then swish, convolution and norm."""

    def __init__(self, channels, inputs):
        super().__init__()
        self.edge_weights = nn.Parameter(torch.ones(inputs))
        self.conv = SeparableConv(channels, channels)
        self.norm = BatchNorm(channels)

    def forward(self, *inputs):
        w = self.edge_weights.relu()
        w = w / (w.sum() + 1e-4)
        fused = sum(wi * x for wi, x in zip(w, inputs))
        return self.norm(self.conv(F.silu(fused)))


class BiFPN(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.top_down4 = FusionNode(channels, 2)
        self.out3 = FusionNode(channels, 2)
        self.out4 = FusionNode(channels, 3)
        self.out5 = FusionNode(channels, 2)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.down = MaxPool()

    def forward(self, p3, p4, p5):
        mid4 = self.top_down4(p4, self.up(p5))
        out3 = self.out3(p3, self.up(mid4))
        out4 = self.out4(p4, mid4, self.down(out3))
        out5 = self.out5(p5, self.down(out4))
        return out3, out4, out5


class Head(nn.Module):
    def __init__(self, channels, outputs, anchors, depth=2, levels=3, bias=0.0):
        super().__init__()
        self.outputs = outputs
        self.convs = nn.ModuleList(SeparableConv(channels, channels) for _ in range(depth))
        self.norms = nn.ModuleList(nn.ModuleList(BatchNorm(channels) for _ in range(depth)) for _ in range(levels))
        self.predict = SeparableConv(channels, anchors * outputs, bias=True)
        nn.init.constant_(self.predict.pointwise.bias, bias)

    def forward(self, features):
        results = []
        for x, norms in zip(features, self.norms):
            for conv, norm in zip(self.convs, norms):
                x = F.silu(norm(conv(x)))
            x = self.predict(x).permute(0, 2, 3, 1)
            results.append(x.reshape(x.size(0), -1, self.outputs))
        return torch.cat(results, dim=1)


class Model(nn.Module):
    def __init__(self, classes=3, anchors=2, channels=14, repeats=2):
        super().__init__()
        self.backbone = Backbone()
        self.lateral3 = nn.Sequential(nn.Conv2d(12, channels, 1, bias=False), BatchNorm(channels))
        self.lateral4 = nn.Sequential(nn.Conv2d(18, channels, 1, bias=False), BatchNorm(channels))
        self.lateral5 = nn.Sequential(nn.Conv2d(18, channels, 1, bias=False), BatchNorm(channels), MaxPool())
        self.fpn = nn.ModuleList(BiFPN(channels) for _ in range(repeats))
        self.classifier = Head(channels, classes, anchors, bias=-math.log((1 - 0.1) / 0.1))
        self.regressor = Head(channels, 4, anchors)

    def forward(self, images):
        mean, std = images.new_tensor(MEAN).view(3, 1, 1), images.new_tensor(STD).view(3, 1, 1)
        c3, c4 = self.backbone((images - mean) / std)
        features = self.lateral3(c3), self.lateral4(c4), self.lateral5(c4)
        for layer in self.fpn:
            features = layer(*features)
        return self.classifier(features), self.regressor(features)


def focal_loss(logits, classes, alpha=0.25, gamma=1.5):
    target = F.one_hot(classes.clamp(min=0).long(), logits.size(-1)) * (classes >= 0).unsqueeze(-1)
    target = target.to(logits.dtype)
    p = logits.sigmoid()
    p_t = p * target + (1 - p) * (1 - target)
    weight = alpha * target + (1 - alpha) * (1 - target)
    ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    per_anchor = (weight * (1 - p_t) ** gamma * ce).sum(-1)
    return per_anchor[classes != -2].sum()


def loss(model, images, cls_targets, box_targets, num_positives):
    logits, boxes = model(images.permute(0, 3, 1, 2))
    positives = num_positives.sum() + 1
    cls_loss = focal_loss(logits, cls_targets) / positives
    matched = box_targets != 0
    box_loss = F.huber_loss(boxes[matched], box_targets[matched], delta=0.1, reduction="sum") / (4 * positives)
    value = cls_loss + 50 * box_loss
    return value, {"cls_outputs": logits, "box_outputs": boxes, "cls_loss": cls_loss, "box_loss": box_loss}
