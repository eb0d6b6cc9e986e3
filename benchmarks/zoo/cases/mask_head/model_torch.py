"""The two heads of Mask R-CNN on pooled regions, with group norm."""

import torch
from torch import nn
from torch.nn import functional as F


class BoxHead(nn.Module):
    def __init__(self, in_channels, pooled_size, num_classes):
        super().__init__()
        self.num_classes = num_classes
        self.conv1 = nn.Conv2d(in_channels, 16, 3, padding=1, bias=False)
        self.norm1 = nn.GroupNorm(4, 16)
        self.conv2 = nn.Conv2d(16, 12, 3, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(4, 12)
        self.fc = nn.Linear(12 * pooled_size[0] * pooled_size[1], 34)
        self.cls_score = nn.Linear(34, num_classes)
        self.bbox_pred = nn.Linear(34, 4 * num_classes)

    def forward(self, x):
        x = F.relu(self.norm1(self.conv1(x)))
        x = F.relu(self.norm2(self.conv2(x)))
        x = F.relu(self.fc(x.flatten(1)))
        return self.cls_score(x), self.bbox_pred(x).view(-1, self.num_classes, 4)


class MaskHead(nn.Module):
    def __init__(self, in_channels, num_classes):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, 12, 3, padding=1, bias=False)
        self.norm1 = nn.GroupNorm(4, 12)
        self.conv2 = nn.Conv2d(12, 8, 3, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(4, 8)
        self.deconv = nn.ConvTranspose2d(8, 11, 2, stride=2)
        self.mask_fcn_logits = nn.Conv2d(11, num_classes - 1, 1)

    def forward(self, x):
        x = F.relu(self.norm1(self.conv1(x)))
        x = F.relu(self.norm2(self.conv2(x)))
        x = F.relu(self.deconv(x))
        return self.mask_fcn_logits(x)


class Model(nn.Module):
    def __init__(self, in_channels=10, box_size=(5, 6), num_classes=7):
        super().__init__()
        self.box_head = BoxHead(in_channels, box_size, num_classes)
        self.mask_head = MaskHead(in_channels, num_classes)

    def forward(self, box_features, mask_features):
        return *self.box_head(box_features), self.mask_head(mask_features)


def detection_losses(class_logits, box_regression, mask_logits, labels, deltas, masks):
    classification = F.cross_entropy(class_logits, labels)
    positive = torch.nonzero(labels > 0).squeeze(1)
    classes = labels[positive]
    box = F.smooth_l1_loss(box_regression[positive, classes], deltas[positive], reduction="sum", beta=1 / 9)
    # background has no mask: the channels begin with class 1
    mask = F.binary_cross_entropy_with_logits(mask_logits[positive, classes - 1], masks[positive])
    return classification, box / labels.numel(), mask


def loss(model, box_features, mask_features, gt_labels, gt_deltas, gt_masks):
    boxes = box_features.flatten(0, 1).permute(0, 3, 1, 2).contiguous()
    shapes = mask_features.flatten(0, 1).permute(0, 3, 1, 2).contiguous()
    class_logits, box_regression, mask_logits = model(boxes, shapes)
    classification, box, mask = detection_losses(
        class_logits,
        box_regression,
        mask_logits,
        gt_labels.flatten().long(),
        gt_deltas.flatten(0, 1),
        gt_masks.flatten(0, 1),
    )
    decay = sum(p.pow(2).sum() for p in model.parameters() if p.ndim > 1)
    outputs = {"label_logits": class_logits, "box_logits": box_regression, "mask_logits": mask_logits}
    outputs.update(label_loss=classification, box_loss=box, mask_loss=mask)
    return classification + box + mask + 1e-3 * decay / 2, outputs


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + 0.5 * step))
