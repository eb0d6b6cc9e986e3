"""RetinaNet in PyTorch."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

NUM_CLASSES = 3
NUM_ANCHORS = 2
FPN_CHANNELS = 10
NUM_LEVELS = 3


class BatchNorm2d(nn.BatchNorm2d):
    """TensorFlow's unfused batch norm: the running variance follows the biased variance of the batch."""

    def __init__(self, channels):
        super().__init__(channels, eps=1e-3, momentum=0.1)

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                var, mean = torch.var_mean(x, dim=(0, 2, 3), unbiased=False)
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var, self.momentum)
            return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)
        return super().forward(x)


class Block(nn.Module):
    def __init__(self, in_channels, channels):
        super().__init__()
        self.downsample = nn.Conv2d(in_channels, channels, 1, stride=2)
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        out = F.relu(self.conv1(x))
        out = self.conv2(out)
        return F.relu(out + self.downsample(x))


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.layer1 = Block(8, 12)
        self.layer2 = Block(12, 16)

    def forward(self, x):
        c3 = self.layer1(F.relu(self.stem(x)))
        return c3, self.layer2(c3)


class FeaturePyramid(nn.Module):
    def __init__(self):
        super().__init__()
        self.lateral3 = nn.Conv2d(12, FPN_CHANNELS, 1)
        self.lateral4 = nn.Conv2d(16, FPN_CHANNELS, 1)
        self.output3 = nn.Conv2d(FPN_CHANNELS, FPN_CHANNELS, 3, padding=1)
        self.output4 = nn.Conv2d(FPN_CHANNELS, FPN_CHANNELS, 3, padding=1)
        self.extra5 = nn.Conv2d(16, FPN_CHANNELS, 3, stride=2, padding=1)

    def forward(self, c3, c4):
        p4 = self.lateral4(c4)
        p3 = self.lateral3(c3) + F.interpolate(p4, scale_factor=2, mode="nearest")
        return self.output3(p3), self.output4(p4), self.extra5(c4)


class Head(nn.Module):
    """One tower of convolutions for all levels; every level has its own norms."""

    def __init__(self, outputs, bias=0.0):
        super().__init__()
        self.outputs = outputs
        self.convs = nn.ModuleList(nn.Conv2d(FPN_CHANNELS, FPN_CHANNELS, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.ModuleList(BatchNorm2d(FPN_CHANNELS) for _ in range(2)) for _ in range(NUM_LEVELS))
        self.predict = nn.Conv2d(FPN_CHANNELS, NUM_ANCHORS * outputs, 3, padding=1)
        nn.init.constant_(self.predict.bias, bias)

    def forward(self, x, level):
        for conv, norm in zip(self.convs, self.norms[level]):
            x = F.relu(norm(conv(x)))
        x = self.predict(x)
        return x.permute(0, 2, 3, 1).reshape(x.size(0), -1, self.outputs)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        self.fpn = FeaturePyramid()
        self.cls_head = Head(NUM_CLASSES, bias=-math.log(9.0))
        self.box_head = Head(4)

    def forward(self, images):
        features = self.fpn(*self.backbone(images))
        cls = torch.cat([self.cls_head(f, i) for i, f in enumerate(features)], dim=1)
        box = torch.cat([self.box_head(f, i) for i, f in enumerate(features)], dim=1)
        return cls, box


def focal_loss(logits, targets, alpha=0.25, gamma=2.0):
    prob = logits.sigmoid()
    ce = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    p_t = prob * targets + (1 - prob) * (1 - targets)
    alpha_t = alpha * targets + (1 - alpha) * (1 - targets)
    return alpha_t * (1 - p_t) ** gamma * ce


def loss(model, images, cls_targets, box_targets):
    cls, box = model(images.permute(0, 3, 1, 2))
    cls_targets = cls_targets.long()
    positive = cls_targets > 0
    valid = cls_targets >= 0
    num_positive = positive.sum().clamp(min=1)

    one_hot = F.one_hot(cls_targets.clamp(min=0), NUM_CLASSES + 1)[..., 1:].to(cls.dtype)
    cls_loss = focal_loss(cls[valid], one_hot[valid]).sum() / num_positive
    box_loss = F.smooth_l1_loss(box[positive], box_targets[positive], reduction="sum", beta=1 / 9)
    box_loss = box_loss / (4 * num_positive)
    return cls_loss + 2.0 * box_loss, {
        "cls_outputs": cls, "box_outputs": box, "cls_loss": cls_loss, "box_loss": box_loss}
