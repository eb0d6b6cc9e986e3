"""SSD heads on two feature maps and the multibox loss with hard negative mining."""

import torch
from torch import nn
from torch.nn import functional as F


class L2Norm(nn.Module):
    def __init__(self, channels, scale):
        super().__init__()
        self.weight = nn.Parameter(torch.full((channels,), scale))

    def forward(self, x):
        return self.weight[:, None, None] * F.normalize(x, dim=1, eps=1e-6)


class Model(nn.Module):
    def __init__(self, num_classes=4, num_anchors=3):
        super().__init__()
        self.num_classes = num_classes
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 24, 3, padding=1)
        self.conv3 = nn.Conv2d(24, 24, 3, padding=2, dilation=2)
        self.conv4 = nn.Conv2d(24, 24, 3, stride=2)
        self.l2norm = L2Norm(24, 2.0)
        self.cls_heads = nn.ModuleList(nn.Conv2d(24, num_anchors * num_classes, 3, padding=1) for _ in range(2))
        self.loc_heads = nn.ModuleList(nn.Conv2d(24, num_anchors * 4, 3, padding=1) for _ in range(2))

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        source1 = F.relu(self.conv2(x))
        x = F.relu(self.conv3(source1))
        source2 = F.relu(self.conv4(F.pad(x, (0, 1, 0, 1))))
        classes, boxes = [], []
        for source, cls, loc in zip((self.l2norm(source1), source2), self.cls_heads, self.loc_heads):
            classes.append(cls(source).permute(0, 2, 3, 1).reshape(source.size(0), -1, self.num_classes))
            boxes.append(loc(source).permute(0, 2, 3, 1).reshape(source.size(0), -1, 4))
        return source1, source2, torch.cat(classes, dim=1), torch.cat(boxes, dim=1)


def multibox_loss(logits, boxes, targets, box_targets, negative_ratio=3):
    batch_size = logits.size(0)
    logits, targets = logits.flatten(0, 1), targets.flatten()
    positive = targets > 0
    negative = targets == 0
    with torch.no_grad():
        background = F.softmax(logits, dim=1)[:, 0]
        count = min(negative_ratio * int(positive.sum()), int(negative.sum()))
        threshold = background[negative].kthvalue(count).values
        hard = negative & (background <= threshold)
    losses = F.cross_entropy(logits, targets.clamp(min=0), reduction="none")
    loss_pos = losses[positive].sum() / batch_size
    loss_neg = losses[hard].sum() / batch_size
    loss_loc = F.smooth_l1_loss(
        boxes.flatten(0, 1)[positive], box_targets.flatten(0, 1)[positive], reduction="sum"
    ) / batch_size
    return loss_pos, loss_neg, loss_loc


def loss(model, images, gclasses, glocalisations):
    source1, source2, logits, boxes = model(images.permute(0, 3, 1, 2).contiguous())
    loss_pos, loss_neg, loss_loc = multibox_loss(logits, boxes, gclasses.long(), glocalisations)
    return loss_pos + loss_neg + loss_loc, {
        "block4": source1,
        "block7": source2,
        "logits": logits,
        "localisations": boxes,
        "cross_entropy_pos": loss_pos,
        "cross_entropy_neg": loss_neg,
        "localization": loss_loc,
    }
