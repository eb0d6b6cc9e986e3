"""HED for small pictures in PyTorch."""
import torch
import torch.nn as nn
import torch.nn.functional as F


TAPS = (3, 8, 15)    # behind the last ReLU of each stage


def vgg_features(stages):
    layers, in_channels = [], 3
    for i, (channels, depth) in enumerate(stages):
        if i > 0:
            layers.append(nn.MaxPool2d(2))
        for _ in range(depth):
            layers += [nn.Conv2d(in_channels, channels, 3, padding=1), nn.ReLU()]
            in_channels = channels
    return nn.Sequential(*layers)


class SideOutput(nn.Module):
    """One score per pixel of a stage's map, enlarged to the size of the picture."""

    def __init__(self, channels, doublings):
        super().__init__()
        self.score = nn.Conv2d(channels, 1, 1)
        self.upsample = nn.Sequential(
            *[nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False) for _ in range(doublings)])
        nn.init.constant_(self.score.weight, 0.05)
        nn.init.zeros_(self.score.bias)

    def forward(self, x):
        return self.upsample(self.score(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([104.0, 116.0, 122.0]).view(1, 3, 1, 1))
        self.features = vgg_features([(8, 2), (12, 2), (16, 3)])
        self.sides = nn.ModuleList([SideOutput(8, 0), SideOutput(12, 1), SideOutput(16, 2)])
        self.fuse = nn.Conv2d(3, 1, 1, bias=False)
        for m in self.features:
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, nonlinearity="relu")
                nn.init.zeros_(m.bias)
        nn.init.constant_(self.fuse.weight, 1 / 3)

    def forward(self, image):
        x = (image.permute(0, 3, 1, 2) - self.mean) / 60
        taps = []
        for i, layer in enumerate(self.features):
            x = layer(x)
            if i in TAPS:
                taps.append(x)
        maps = [side(tap) for side, tap in zip(self.sides, taps)]
        return maps, self.fuse(torch.cat(maps, dim=1))


def balanced_bce(logits, edges):
    """Edge pixels count as much as the others; the shares are those of the whole batch."""
    target = edges.unsqueeze(1).to(logits.dtype)
    beta = 1 - target.mean()
    cost = F.binary_cross_entropy_with_logits(logits, target, pos_weight=beta / (1 - beta), reduction="none")
    return ((1 - beta) * cost).mean()


def loss(model, image, edgemap):
    maps, fused = model(image)
    xentropy = balanced_bce(fused, edgemap)
    total = xentropy + sum(balanced_bce(side, edgemap) for side in maps)
    decay = sum(p.square().sum() / 2 for name, p in model.named_parameters() if name.endswith(".weight"))
    outputs = {f"output{i}": side for i, side in enumerate(maps, 1)}
    return total + 2e-4 * decay, {**outputs, "fused": fused, "xentropy": xentropy}


def optimizer(model):
    # no epsilon: the accumulators do not begin at zero
    return torch.optim.Adagrad(model.parameters(), lr=0.02, initial_accumulator_value=0.1, eps=0.0)
