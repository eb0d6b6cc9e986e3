import math

import torch
from torch import nn
from torch.nn import functional as F

from data import CLASSES, HEIGHT, SHAPES, WIDTH, anchors

EPSILON = 1e-16


class Fire(nn.Module):
    def __init__(self, inplanes, squeeze_planes, expand_planes):
        super().__init__()
        self.squeeze = nn.Conv2d(inplanes, squeeze_planes, kernel_size=1)
        self.expand1x1 = nn.Conv2d(squeeze_planes, expand_planes, kernel_size=1)
        self.expand3x3 = nn.Conv2d(squeeze_planes, expand_planes, kernel_size=3, padding=1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        x = self.relu(self.squeeze(x))
        return torch.cat([self.relu(self.expand1x1(x)), self.relu(self.expand3x3(x))], dim=1)


def to_corners(boxes):
    centre, size = boxes[..., :2], boxes[..., 2:]
    return torch.cat([centre - size / 2, centre + size / 2], dim=-1)


def soft_exp(x, threshold=1.0):
    slope = math.exp(threshold)
    return torch.where(x > threshold, slope * (x - threshold + 1), x.clamp(max=threshold).exp())


class PredictionResolver(nn.Module):
    """Reads the map as class scores of all anchors of a cell, then their confidences, then their deltas."""

    def __init__(self):
        super().__init__()
        self.per_cell = len(SHAPES)
        self.register_buffer("anchors", torch.tensor(anchors(), dtype=torch.get_default_dtype()))
        self.register_buffer("furthest", torch.tensor([WIDTH - 1.0, HEIGHT - 1.0]).repeat(2))

    def forward(self, x):
        n, k = len(x), self.per_cell
        scores, conf, deltas = x.permute(0, 2, 3, 1).split([k * CLASSES, k, k * 4], dim=-1)
        probs = F.softmax(scores.reshape(n, -1, CLASSES), dim=-1)
        deltas = deltas.reshape(n, -1, 4)
        centre = self.anchors[:, :2] + deltas[..., :2] * self.anchors[:, 2:]
        size = self.anchors[:, 2:] * soft_exp(deltas[..., 2:])
        corners = to_corners(torch.cat([centre, size], dim=-1))
        corners = torch.minimum(corners.clamp(min=0), self.furthest)
        extent = corners[..., 2:] - corners[..., :2] + 1
        return probs, conf.reshape(n, -1).sigmoid(), deltas, torch.cat([corners[..., :2] + extent / 2, extent], dim=-1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 12, kernel_size=3, stride=2)
        self.stage1 = nn.Sequential(nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True), Fire(12, 6, 12), Fire(24, 6, 12))
        self.stage2 = nn.Sequential(nn.MaxPool2d(3, 2, ceil_mode=True), Fire(24, 8, 16), Fire(32, 8, 16))
        self.convdet = nn.Conv2d(32, len(SHAPES) * (CLASSES + 5), kernel_size=3, padding=1)
        self.resolver = PredictionResolver()

    def forward(self, images):
        # TensorFlow's SAME at stride 2: the odd pixel is padded at the end
        x = F.relu(self.conv1(F.pad(images.permute(0, 3, 1, 2), (0, 1, 0, 1))))
        stage1 = self.stage1(x)
        stage2 = self.stage2(stage1)
        return stage1, stage2, self.resolver(self.convdet(stage2))


def overlap(a, b):
    low, high = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    shared = (high - low).clamp(min=0).prod(dim=-1)
    area_a, area_b = ((x[..., 2:] - x[..., :2]).prod(dim=-1) for x in (a, b))
    return shared / (area_a + area_b - shared + EPSILON)


def loss(model, image_input, input_mask, box_delta_input, box_input, labels):
    stage1, stage2, (probs, conf, deltas, boxes) = model(image_input)
    mask = input_mask.squeeze(-1)
    count = mask.sum()
    with torch.no_grad():
        iou = overlap(to_corners(boxes), to_corners(box_input)) * mask
    class_loss = -(labels * torch.log(probs + EPSILON) + (1 - labels) * torch.log(1 - probs + EPSILON))
    class_loss = (class_loss * input_mask).sum() / count
    weights = 75.0 * mask / count + 100.0 * (1 - mask) / (mask.size(1) - count)
    confidence_loss = ((iou - conf).pow(2) * weights).sum(dim=1).mean()
    bbox_loss = 5.0 * ((deltas - box_delta_input) * input_mask).pow(2).sum() / count
    decay = sum(m.weight.pow(2).sum() for m in model.modules() if isinstance(m, nn.Conv2d))
    total = class_loss + confidence_loss + bbox_loss + 0.5 * 0.001 * decay
    return total, {"fire3": stage1, "fire5": stage2, "class_probs": probs, "confidence": conf, "boxes": boxes, "class_loss": class_loss,
                   "confidence_loss": confidence_loss, "bbox_loss": bbox_loss}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)


@torch.no_grad()
def clip_each_(parameters, limit):
    for p in parameters:
        p.grad.mul_(limit / p.grad.norm().clamp(min=limit))


def step(model, optimizer, scheduler, **batch):
    optimizer.zero_grad()
    total, outputs = loss(model, **batch)
    total.backward()
    clip_each_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    return total, outputs
