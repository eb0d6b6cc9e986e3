"""U-Net after the usual torch layout."""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm2d(nn.BatchNorm2d):
    """Its running variance is of the biased kind."""

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                var, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var, self.momentum)
            return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)
        return super().forward(x)


class ConvBlock(nn.Sequential):
    def __init__(self, in_channels, out_channels):
        super().__init__(
            nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False),
            BatchNorm2d(out_channels, eps=1e-3, momentum=0.01),
            nn.ReLU(inplace=True),
        )


class Model(nn.Module):
    def __init__(self, num_classes=3):
        super().__init__()
        self.inc = ConvBlock(1, 8)
        self.down = ConvBlock(8, 16)
        self.bottleneck = ConvBlock(16, 24)
        self.dec2 = ConvBlock(40, 16)
        # SAME at stride 2 crops the last row and column only
        self.up = nn.ConvTranspose2d(16, 8, 3, stride=2)
        self.dec1 = ConvBlock(16, 8)
        self.outc = nn.Conv2d(8, num_classes, 1)

    def forward(self, x):
        skip1 = self.inc(x)
        skip2 = self.down(F.max_pool2d(skip1, 2))
        # 3x3 windows at stride 2: the average is over what lies inside of the image
        pooled = F.avg_pool2d(skip2, 3, stride=2, ceil_mode=True)
        center = self.bottleneck(pooled)
        x = F.interpolate(center, scale_factor=2, mode="bilinear", align_corners=True)
        up2 = self.dec2(torch.cat([skip2, x], dim=1))
        x = self.up(up2)[:, :, :-1, :-1]
        up1 = self.dec1(torch.cat([skip1, x], dim=1))
        return {"down2": skip2, "center": center, "up2": up2, "up1": up1, "logits": self.outc(up1)}


def dice_score(logits, labels, ignore_index):
    valid = (labels != ignore_index).unsqueeze(1)
    truth = F.one_hot(labels.masked_fill(labels == ignore_index, 0), logits.size(1)).permute(0, 3, 1, 2)
    probs = F.softmax(logits, dim=1) * valid
    truth = truth * valid
    intersection = (probs * truth).sum(dim=(0, 2, 3))[1:]
    union = (probs + truth).sum(dim=(0, 2, 3))[1:]
    return ((2 * intersection + 1) / (union + 1)).mean()


def loss(model, images, labels):
    out = model(images.permute(0, 3, 1, 2).contiguous())
    labels = labels.long()
    weight = out["logits"].new_tensor([0.5, 1.0, 2.0])
    out["cross_entropy"] = F.cross_entropy(out["logits"], labels, weight=weight, ignore_index=255)
    out["dice"] = dice_score(out["logits"], labels, ignore_index=255)
    return out["cross_entropy"] + (1 - out["dice"]), out
