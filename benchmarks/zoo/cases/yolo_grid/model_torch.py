"""A small YOLO: darknet backbone, 1 x 1 detection head, anchors, sum-of-squares loss."""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm2d(nn.BatchNorm2d):
    """Keeps the biased batch variance in running_var, as the original does."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=(0, 2, 3), unbiased=False)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)


class ConvBlock(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, padding=kernel_size // 2, bias=False)
        self.bn = BatchNorm2d(out_channels, eps=1e-5, momentum=0.1)
        self.act = nn.LeakyReLU(0.1)

    def forward(self, x):
        return self.act(self.bn(self.conv(x)))


class YoloLayer(nn.Module):
    """Turns the head's map into boxes (centre and size, as fractions of the image), confidences and class logits."""

    def __init__(self, anchors, num_classes, grid):
        super().__init__()
        self.num_anchors, self.num_classes, self.grid = len(anchors), num_classes, grid
        grid_y, grid_x = torch.meshgrid(torch.arange(grid), torch.arange(grid), indexing="ij")
        self.register_buffer("anchors", torch.tensor(anchors))
        self.register_buffer("offsets", torch.stack([grid_x, grid_y], dim=-1)[:, :, None, :].float())

    def forward(self, x):
        x = x.view(x.size(0), self.num_anchors, 5 + self.num_classes, self.grid, self.grid)
        x = x.permute(0, 3, 4, 1, 2)
        centres = (torch.sigmoid(x[..., :2]) + self.offsets) / self.grid
        sizes = torch.exp(x[..., 2:4]) * self.anchors / self.grid
        return torch.cat([centres, sizes], dim=-1), torch.sigmoid(x[..., 4]), x[..., 5:]


class Model(nn.Module):
    def __init__(self, num_classes=3, anchors=((0.875, 1.625), (1.75, 1.125)), grid=4):
        super().__init__()
        self.backbone = nn.Sequential(
            ConvBlock(3, 8, 3), nn.MaxPool2d(2),
            ConvBlock(8, 16, 3), nn.MaxPool2d(2),
            ConvBlock(16, 32, 3), nn.MaxPool2d(2),
            ConvBlock(32, 16, 1),
            ConvBlock(16, 32, 3),
        )
        self.head = nn.Conv2d(32, len(anchors) * (5 + num_classes), 1)
        self.yolo = YoloLayer(anchors, num_classes, grid)

    def forward(self, images):
        features = self.backbone(images)
        boxes, confidence, class_logits = self.yolo(self.head(features))
        return features, boxes, confidence, class_logits


def box_iou(a, b):
    top_left = torch.max(a[..., :2] - a[..., 2:] / 2, b[..., :2] - b[..., 2:] / 2)
    bottom_right = torch.min(a[..., :2] + a[..., 2:] / 2, b[..., :2] + b[..., 2:] / 2)
    inter = (bottom_right - top_left).clamp(min=0).prod(dim=-1)
    union = a[..., 2:].prod(dim=-1) + b[..., 2:].prod(dim=-1) - inter
    return inter / union.clamp(min=1e-10)


def loss(model, images, truth, responsible, classes):
    features, boxes, confidence, class_logits = model(images.permute(0, 3, 1, 2).contiguous())
    batch, grid = boxes.size(0), boxes.size(1)
    target = truth.unsqueeze(3).expand_as(boxes)
    iou = box_iou(boxes, target)

    xy = ((boxes[..., :2] - target[..., :2]) * grid).pow(2).sum(-1)
    wh = (boxes[..., 2:].sqrt() - target[..., 2:].sqrt()).pow(2).sum(-1)
    labels = classes.long().unsqueeze(-1).expand(confidence.shape)
    cross_entropy = F.cross_entropy(class_logits.flatten(0, 3), labels.flatten(), reduction="none").view_as(confidence)

    coord_loss = 5.0 * (responsible * (xy + wh)).sum() / batch
    object_loss = (responsible * (confidence - iou.detach()).pow(2)).sum() / batch
    noobject_loss = 0.5 * ((1 - responsible) * confidence.pow(2)).sum() / batch
    class_loss = (responsible * cross_entropy).sum() / batch
    decay = 0.5 * sum(p.pow(2).sum() for p in model.parameters() if p.ndim == 4)
    total = coord_loss + object_loss + noobject_loss + class_loss + 5e-4 * decay
    return total, {
        "features": features, "boxes": boxes, "confidence": confidence, "class_logits": class_logits, "iou": iou,
        "coord_loss": coord_loss, "object_loss": object_loss, "noobject_loss": noobject_loss, "class_loss": class_loss,
    }


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=10, power=4.0)
