"""PixelLink with a small VGG backbone, its loss with online hard negative mining, and its training set-up."""
import torch
import torch.nn as nn
import torch.nn.functional as F

REPLICAS = 2
NEG_POS_RATIO = 3


class Upsample2x(nn.Module):
    """Bilinear enlargement on the grid of TF1's resize_bilinear: every second pixel is a pixel of the small map."""

    def forward(self, x):
        h, w = x.shape[2:]
        x = F.pad(x, (0, 1, 0, 1), mode="replicate")
        return F.interpolate(x, size=(2 * h + 1, 2 * w + 1), mode="bilinear", align_corners=True)[:, :, :2 * h, :2 * w]


class FusionHead(nn.Module):
    """1x1 scores of every map, added from the coarsest to the finest."""

    def __init__(self, channels, outputs):
        super().__init__()
        self.scores = nn.ModuleList([nn.Conv2d(c, outputs, 1) for c in channels])
        self.up = Upsample2x()

    def forward(self, features):
        fused = self.scores[-1](features[-1])
        for score, feature in zip(reversed(self.scores[:-1]), reversed(features[:-1])):
            fused = score(feature) + self.up(fused)
        return fused


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([123.0, 117.0, 104.0]).view(1, 3, 1, 1), persistent=False)
        self.conv1_1 = nn.Conv2d(3, 8, 3, padding=1)
        self.conv1_2 = nn.Conv2d(8, 8, 3, padding=1)
        self.conv2_1 = nn.Conv2d(8, 12, 3, padding=1)
        self.conv2_2 = nn.Conv2d(12, 12, 3, padding=1)
        self.conv3_1 = nn.Conv2d(12, 16, 3, padding=1)
        self.conv3_2 = nn.Conv2d(16, 16, 3, padding=1)
        self.conv4_1 = nn.Conv2d(16, 24, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.pool5 = nn.MaxPool2d(3, stride=1, padding=1)
        self.fc6 = nn.Conv2d(24, 32, 3, padding=2, dilation=2)
        self.fc7 = nn.Conv2d(32, 32, 1)
        self.pixel_head = FusionHead([12, 16, 32], 2)
        self.link_head = FusionHead([12, 16, 32], 16)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.xavier_uniform_(m.weight)
                nn.init.zeros_(m.bias)

    def forward(self, images):
        x = (images.permute(0, 3, 1, 2) - self.mean) / 50.0
        x = F.relu(self.conv1_2(F.relu(self.conv1_1(x))))
        c2 = F.relu(self.conv2_2(F.relu(self.conv2_1(self.pool(x)))))
        c3 = F.relu(self.conv3_2(F.relu(self.conv3_1(self.pool(c2)))))
        x = F.relu(self.conv4_1(self.pool(c3)))
        c4 = F.relu(self.fc7(F.relu(self.fc6(self.pool5(x)))))
        pixels = self.pixel_head([c2, c3, c4])
        links = self.link_head([c2, c3, c4])
        b, _, h, w = links.shape
        return pixels, links.view(b, 8, 2, h, w)


@torch.no_grad()
def mine_negatives(background, positive, negative):
    """Of each picture the hardest negatives, three for every text pixel; all of them where there is no text."""
    selected = torch.zeros_like(negative)
    for i in range(len(background)):
        count = int(negative[i].sum())
        if positive[i].any():
            count = min(count, NEG_POS_RATIO * int(positive[i].sum()))
        if count > 0:
            threshold = background[i][negative[i]].topk(count, largest=False).values[-1]
            selected[i] = negative[i] & (background[i] <= threshold)
    return selected


def pixel_criterion(logits, labels, weights):
    positive, negative = labels == 1, labels == 0
    losses = F.cross_entropy(logits, positive.long(), reduction="none")
    selected = mine_negatives(logits.softmax(1)[:, 0], positive, negative)
    return (losses * (weights + selected)).sum() / (selected.sum() + positive.sum())


def link_criterion(logits, labels, weights):
    labels = labels.permute(0, 3, 1, 2)
    losses = F.cross_entropy(logits.transpose(1, 2), labels.long(), reduction="none")
    total = 0
    for label in (1, 0):
        mask = weights.unsqueeze(1) * (labels == label)
        total = total + (losses * mask).sum() / mask.sum()
    return total


def loss(model, images, pixel_labels, pixel_weights, link_labels):
    pixels, links = model(images)
    pixel_loss = pixel_criterion(pixels, pixel_labels, pixel_weights)
    link_loss = link_criterion(links, link_labels, pixel_weights)
    decay = sum(p.square().sum() for n, p in model.named_parameters() if n.endswith("weight")) / 2
    total = 2.0 * pixel_loss + link_loss + 5e-4 * decay
    # the replicas' gradients are summed
    return total / REPLICAS, {"pixel_logits": pixels, "link_logits": links, "pixel_loss": pixel_loss,
                              "link_loss": link_loss}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)


def scheduler(optimizer):
    """Two updates of warming up, then the full rate."""
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 if step <= 1 else 10.0)
