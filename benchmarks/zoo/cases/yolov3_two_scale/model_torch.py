"""YOLOv3 in small, with two heads."""

import torch
from torch import nn
from torch.nn import functional as F

ANCHORS = {"large": [(16, 10), (12, 18), (26, 20)], "small": [(5, 7), (9, 6), (8, 12)]}
HEIGHT, WIDTH = 32, 48


class BatchNorm2d(nn.BatchNorm2d):
    """The running variance follows the biased variance of the batch."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)


class ConvBlock(nn.Module):
    def __init__(self, cin, cout, kernel_size, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, kernel_size, stride, padding=kernel_size // 2, bias=False)
        self.bn = BatchNorm2d(cout, eps=1e-5, momentum=0.01)

    def forward(self, x):
        return F.leaky_relu(self.bn(self.conv(x)), 0.1)


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.reduce = ConvBlock(channels, channels // 2, 1)
        self.expand = ConvBlock(channels // 2, channels, 3)

    def forward(self, x):
        return x + self.expand(self.reduce(x))


class Darknet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = ConvBlock(3, 8, 3)
        self.down1 = ConvBlock(8, 16, 3, stride=2)
        self.res1 = Residual(16)
        self.down2 = ConvBlock(16, 24, 3, stride=2)
        self.res2 = Residual(24)
        self.down3 = ConvBlock(24, 40, 3, stride=2)
        self.res3 = Residual(40)

    def forward(self, x):
        x = self.res1(self.down1(self.stem(x)))
        route = self.res2(self.down2(x))
        return route, self.res3(self.down3(route))


class Head(nn.Module):
    """Gives [batch, rows, columns, anchors, 5 + classes]."""

    def __init__(self, cin, channels, num_anchors=3, num_classes=4):
        super().__init__()
        self.num_anchors = num_anchors
        self.conv = ConvBlock(cin, channels, 3)
        self.predict = nn.Conv2d(channels, num_anchors * (5 + num_classes), 1)

    def forward(self, x):
        x = self.predict(self.conv(x))
        batch, _, rows, columns = x.shape
        return x.view(batch, self.num_anchors, -1, rows, columns).permute(0, 3, 4, 1, 2)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Darknet()
        self.neck_large = ConvBlock(40, 24, 1)
        self.head_large = Head(24, 40)
        self.lateral = ConvBlock(24, 12, 1)
        self.upsample = nn.Upsample(scale_factor=2, mode="nearest")
        self.neck_small = ConvBlock(36, 20, 1)
        self.head_small = Head(20, 32)

    def forward(self, images):
        route, x = self.backbone(images)
        x = self.neck_large(x)
        large = self.head_large(x)
        x = self.upsample(self.lateral(x))
        small = self.head_small(self.neck_small(torch.cat([x, route], dim=1)))
        return route, large, small


def pairwise_iou(boxes, others):
    """IoU of [batch, n, 4] with [batch, m, 4], given by centre and size."""
    boxes, others = boxes[:, :, None], others[:, None]
    low = torch.maximum(boxes[..., :2] - boxes[..., 2:] / 2, others[..., :2] - others[..., 2:] / 2)
    high = torch.minimum(boxes[..., :2] + boxes[..., 2:] / 2, others[..., :2] + others[..., 2:] / 2)
    inter = (high - low).clamp(min=0).prod(-1)
    return inter / (boxes[..., 2:].prod(-1) + others[..., 2:].prod(-1) - inter + 1e-10)


def scale_loss(out, target, anchors):
    """The four parts of the loss at one scale, each a sum over cells and anchors, averaged over the images."""
    batch, rows, columns = out.shape[:3]
    stride = out.new_tensor([WIDTH / columns, HEIGHT / rows])
    anchors = out.new_tensor(anchors)
    grid_y, grid_x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    offset = torch.stack([grid_x, grid_y], dim=-1).to(out)[:, :, None]
    obj = target[..., 4]

    xy = out[..., 0:2].sigmoid()
    with torch.no_grad():
        boxes = torch.cat([(xy + offset) * stride, out[..., 2:4].exp() * anchors], dim=-1)
        iou = pairwise_iou(boxes.flatten(1, 3), target[..., :4].flatten(1, 3)) * obj.flatten(1)[:, None]
        background = (iou.amax(dim=2).view_as(obj) < 0.5).to(out) * (1 - obj)

    true_xy = target[..., 0:2] / stride - offset
    true_wh = target[..., 2:4] / anchors
    true_wh = torch.where(true_wh == 0, torch.ones_like(true_wh), true_wh).log()
    weight = obj * (2 - target[..., 2] / WIDTH * target[..., 3] / HEIGHT)
    xy_loss = (weight[..., None] * (true_xy - xy).square()).sum() / batch
    wh_loss = (weight[..., None] * (true_wh - out[..., 2:4]).square()).sum() / batch

    conf = F.binary_cross_entropy_with_logits(out[..., 4], obj, reduction="none")
    conf_loss = ((obj + background) * conf).sum() / batch

    smooth = 0.99 * target[..., 5:] + 0.01 / target[..., 5:].size(-1)
    class_bce = F.binary_cross_entropy_with_logits(out[..., 5:], smooth, reduction="none")
    class_loss = (obj[..., None] * class_bce).sum() / batch
    return xy_loss, wh_loss, conf_loss, class_loss


def loss(model, images, labels_large, labels_small):
    route, large, small = model(images.permute(0, 3, 1, 2).contiguous())
    parts_large = scale_loss(large, labels_large, ANCHORS["large"])
    parts_small = scale_loss(small, labels_small, ANCHORS["small"])
    xy_loss, wh_loss, conf_loss, class_loss = (a + b for a, b in zip(parts_large, parts_small))
    return xy_loss + wh_loss + conf_loss + class_loss, {
        "route": route,
        "feature_map_1": large.permute(0, 3, 4, 1, 2).flatten(1, 2),
        "feature_map_2": small.permute(0, 3, 4, 1, 2).flatten(1, 2),
        "xy_loss": xy_loss, "wh_loss": wh_loss, "conf_loss": conf_loss, "class_loss": class_loss,
    }
