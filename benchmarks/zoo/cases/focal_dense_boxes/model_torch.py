"""FCOS on two levels: a tiny backbone with a feature pyramid, and one head for both levels."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class SameConv2d(nn.Conv2d):
    """Convolution of even-sized maps that keeps TensorFlow's SAME padding where it strides."""

    def __init__(self, inputs, outputs, kernel_size=3, stride=1, bias=True):
        padding = kernel_size // 2 if stride == 1 else 0
        super().__init__(inputs, outputs, kernel_size, stride=stride, padding=padding, bias=bias)

    def forward(self, x):
        if self.stride == (2, 2):
            x = F.pad(x, (0, 1, 0, 1))
        return super().forward(x)


def block(inputs, outputs, stride=1):
    return nn.Sequential(
        SameConv2d(inputs, outputs, stride=stride, bias=False), nn.GroupNorm(4, outputs), nn.ReLU(inplace=True)
    )


class Pyramid(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.stem = nn.Sequential(SameConv2d(3, 8, stride=2), nn.ReLU(inplace=True))
        self.stage4 = block(8, width, stride=2)
        self.stage8 = block(width, width, stride=2)
        self.inner4 = SameConv2d(width, width, 1)
        self.inner8 = SameConv2d(width, width, 1)
        self.layer4 = SameConv2d(width, width)

    def forward(self, x):
        c4 = self.stage4(self.stem(x))
        c8 = self.stage8(c4)
        p8 = self.inner8(c8)
        p4 = self.inner4(c4) + F.interpolate(p8, scale_factor=2, mode="nearest")
        return [self.layer4(p4), p8]


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.value = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return x * self.value


class Head(nn.Module):
    def __init__(self, num_classes=3, width=16, levels=2):
        super().__init__()
        self.cls_tower = block(width, width)
        self.bbox_tower = block(width, width)
        self.cls_logits = SameConv2d(width, num_classes)
        self.bbox_pred = SameConv2d(width, 4)
        self.ctrness = SameConv2d(width, 1)
        self.scales = nn.ModuleList([Scale() for _ in range(levels)])
        nn.init.constant_(self.cls_logits.bias, -math.log((1 - 0.1) / 0.1))

    def forward(self, features):
        logits, boxes, centres = [], [], []
        for scale, feature in zip(self.scales, features):
            cls_feature, box_feature = self.cls_tower(feature), self.bbox_tower(feature)
            logits.append(flatten(self.cls_logits(cls_feature)))
            boxes.append(flatten(scale(self.bbox_pred(box_feature)).exp()))
            centres.append(flatten(self.ctrness(box_feature)))
        return torch.cat(logits, 1), torch.cat(boxes, 1), torch.cat(centres, 1).squeeze(2)


def flatten(x):
    """[batch, channels, height, width] to [batch, locations, channels]."""
    return x.permute(0, 2, 3, 1).flatten(1, 2)


class FCOS(nn.Module):
    def __init__(self):
        super().__init__()
        self.pyramid = Pyramid()
        self.head = Head()

    def forward(self, images):
        features = self.pyramid(images)
        return features, self.head(features)


def sigmoid_focal_loss(logits, targets, alpha=0.25, gamma=2.0):
    p = logits.sigmoid()
    ce = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    p_t = p * targets + (1 - p) * (1 - targets)
    alpha_t = alpha * targets + (1 - alpha) * (1 - targets)
    return alpha_t * (1 - p_t) ** gamma * ce


def giou_loss(pred, target, eps=1e-7):
    near, far = torch.min(pred, target), torch.max(pred, target)
    intersection = (near[..., 0] + near[..., 2]) * (near[..., 1] + near[..., 3])
    enclosing = (far[..., 0] + far[..., 2]) * (far[..., 1] + far[..., 3])
    area = lambda box: (box[..., 0] + box[..., 2]) * (box[..., 1] + box[..., 3])
    union = area(pred) + area(target) - intersection
    return 1 - intersection / (union + eps) + (enclosing - union) / (enclosing + eps)


def compute_centerness(sides):
    horizontal, vertical = sides[..., [0, 2]], sides[..., [1, 3]]
    ratio = horizontal.amin(-1) / horizontal.amax(-1) * (vertical.amin(-1) / vertical.amax(-1))
    return ratio.sqrt()


def loss(model, images, labels, sides):
    (p2, p3), (logits, boxes, centres) = model(images.permute(0, 3, 1, 2).contiguous())
    labels = labels.long()
    positive = labels > 0
    valid = labels >= 0
    num_positive = positive.sum().clamp(min=1)

    one_hot = F.one_hot(labels.clamp(min=0), 4)[..., 1:].to(logits.dtype)
    class_loss = sigmoid_focal_loss(logits[valid], one_hot[valid]).sum() / num_positive
    centerness = compute_centerness(sides[positive])
    box_loss = (giou_loss(boxes[positive], sides[positive]) * centerness).sum() / centerness.sum()
    centre_loss = F.binary_cross_entropy_with_logits(centres[positive], centerness, reduction="sum") / num_positive
    l2 = sum(m.weight.pow(2).sum() for m in model.modules() if isinstance(m, nn.Conv2d)) / 2
    total = class_loss + box_loss + centre_loss + 1e-3 * l2
    return total, {"p2": p2, "p3": p3, "logits": logits, "boxes": boxes, "centreness": centres,
                   "class_loss": class_loss, "box_loss": box_loss, "centre_loss": centre_loss}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)


def scheduler(optimizer):
    """Two updates at a quarter of the rate, one at the whole, then a tenth."""
    factors = [0.25, 0.25, 1.0, 0.1]
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: factors[min(step, 3)])
