"""CenterNet with a small backbone: class heatmap, size and offset at a quarter of the image's size."""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm2d(nn.BatchNorm2d):
    """The running variance is the biased one."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        mean, var = self.running_mean.clone(), self.running_var.clone()
        out = F.batch_norm(x, mean, var, self.weight, self.bias, True, self.momentum, self.eps)
        with torch.no_grad():
            n = x.numel() / x.size(1)
            kept = self.running_var * (1 - self.momentum)
            self.running_mean.copy_(mean)
            self.running_var.copy_(kept + (var - kept) * ((n - 1) / n))
        return out


class DownBlock(nn.Module):
    """Halves the map; its convolution pads on the right and at the bottom."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, stride=2, bias=False)
        self.bn = BatchNorm2d(out_channels, eps=1e-5, momentum=0.1)

    def forward(self, x):
        return F.relu(self.bn(self.conv(F.pad(x, (0, 1, 0, 1)))))


class Neck(nn.Module):
    def __init__(self, deep_channels, lateral_channels, out_channels):
        super().__init__()
        self.up = nn.ConvTranspose2d(deep_channels, out_channels, 4, stride=2, padding=1, bias=False)
        self.bn = BatchNorm2d(out_channels, eps=1e-5, momentum=0.1)
        self.lateral = nn.Conv2d(lateral_channels, out_channels, 1)

    def forward(self, deep, lateral):
        x = self.up(deep)
        return F.relu(self.bn(x)) + self.lateral(lateral)


def head(in_channels, out_channels):
    return nn.Sequential(
        nn.Conv2d(in_channels, 12, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(12, out_channels, 1),
    )


class Model(nn.Module):
    def __init__(self, num_classes=3):
        super().__init__()
        self.register_buffer("mean", torch.tensor([104.0, 114.0, 120.0]).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor([73.0, 69.0, 70.0]).view(1, 3, 1, 1), persistent=False)
        self.layer1 = DownBlock(3, 8)
        self.layer2 = DownBlock(8, 14)
        self.layer3 = DownBlock(14, 24)
        self.neck = Neck(24, 14, 16)
        self.heatmap = head(16, num_classes)
        self.size = head(16, 2)
        self.offset = head(16, 2)
        nn.init.constant_(self.heatmap[-1].bias, -2.19)

    def forward(self, images):
        x = (images - self.mean) / self.std
        c4 = self.layer2(self.layer1(x))
        c8 = self.layer3(c4)
        features = self.neck(c8, c4)
        return features, self.heatmap(features), self.size(features), self.offset(features)


def focal_loss(pred, target):
    positive = target.eq(1).to(pred.dtype)
    negative = 1 - positive
    pos_loss = -torch.log(pred.clamp(1e-5, 1 - 1e-5)) * (1 - pred) ** 2 * positive
    neg_loss = -torch.log((1 - pred).clamp(1e-5, 1 - 1e-5)) * pred**2 * (1 - target) ** 4 * negative
    num_pos = positive.sum()
    return (pos_loss.sum() + neg_loss.sum()) / num_pos.clamp(min=1)


def l1_at_peaks(output, index, target, mask):
    feature = output.flatten(2).transpose(1, 2)
    pred = feature.gather(1, index.unsqueeze(2).expand(-1, -1, feature.size(2)))
    mask = mask.unsqueeze(2).expand_as(pred)
    return F.l1_loss(pred * mask, target * mask, reduction="sum") / (mask.sum() + 1e-4)


def loss(model, images, heatmaps, indices, offsets, sizes, present):
    features, hm, wh, reg = model(images.permute(0, 3, 1, 2).contiguous())
    hm_loss = focal_loss(torch.sigmoid(hm), heatmaps.permute(0, 3, 1, 2))
    wh_loss = l1_at_peaks(wh, indices.long(), sizes, present)
    reg_loss = l1_at_peaks(reg, indices.long(), offsets, present)
    total = hm_loss + 0.1 * wh_loss + reg_loss
    return total, {
        "features": features,
        "hm": hm,
        "wh": wh,
        "reg": reg,
        "hm_loss": hm_loss,
        "wh_loss": wh_loss,
        "reg_loss": reg_loss,
    }
