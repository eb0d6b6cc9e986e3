"""A region proposal network in torch."""

import torch
from torch import nn
from torch.nn import functional as F

BGR_MEAN = (0.406, 0.456, 0.485)


class Backbone(nn.Module):
    """The stem is pretrained in earnest and never trained."""

    def __init__(self, width=24):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.stage2 = nn.Conv2d(8, 16, 3, padding=1)
        self.stage3 = nn.Conv2d(16, width, 3, padding=1)
        self.stem.requires_grad_(False)

    def forward(self, images):
        x = images.flip(1) - images.new_tensor(BGR_MEAN).view(1, 3, 1, 1)
        x = F.max_pool2d(F.relu(self.stem(x)), 2)
        x = F.max_pool2d(F.relu(self.stage2(x)), 2)
        return F.relu(self.stage3(x))


class ProposalHead(nn.Module):
    def __init__(self, in_channels=24, channels=32, num_anchors=3):
        super().__init__()
        self.num_anchors = num_anchors
        self.conv = nn.Conv2d(in_channels, channels, 3, padding=1)
        self.objectness = nn.Conv2d(channels, 2 * num_anchors, 1)
        self.deltas = nn.Conv2d(channels, 4 * num_anchors, 1)

    def forward(self, features):
        x = F.relu(self.conv(features))
        scores = self.objectness(x)
        n, _, h, w = scores.shape
        scores = scores.reshape(n, 2, self.num_anchors * h, w)
        return x, scores, self.deltas(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        self.head = ProposalHead()

    def forward(self, images):
        features = self.backbone(images)
        hidden, scores, deltas = self.head(features)
        return features, hidden, scores, deltas


def loss(model, images, rpn_labels, rpn_bbox_targets, rpn_bbox_inside_weights, rpn_bbox_outside_weights):
    features, hidden, scores, deltas = model(images.permute(0, 3, 1, 2))
    objectness = F.cross_entropy(scores, rpn_labels.squeeze(1).long(), ignore_index=-1)

    targets, inside, outside = (t.permute(0, 3, 1, 2) for t in
                                (rpn_bbox_targets, rpn_bbox_inside_weights, rpn_bbox_outside_weights))
    per_box = F.smooth_l1_loss(inside * deltas, inside * targets, beta=1.0 / 9.0, reduction="none")
    regression = (outside * per_box).sum(dim=(1, 2, 3)).mean()

    decay = sum(p.pow(2).sum() for p in model.parameters() if p.requires_grad and p.ndim == 4)
    total = objectness + regression + 0.5 * 5e-4 * decay
    return total, {"net_conv": features, "rpn": hidden, "rpn_cls_score": scores, "rpn_bbox_pred": deltas,
                   "rpn_cross_entropy": objectness, "rpn_loss_box": regression}


def optimizer(model):
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.02, momentum=0.9)


def scheduler(optimizer):
    # steps 0 and 1 at the full rate
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 if step <= 1 else 0.1)
