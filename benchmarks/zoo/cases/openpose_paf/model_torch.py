"""Multi-stage pose network: part affinity fields and joint heat maps, refined from stage to stage."""

import torch
from torch import nn


def conv(inputs, outputs, kernel):
    return nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2)


def branch(inputs, outputs, kernel, hidden, wide):
    return nn.Sequential(
        conv(inputs, hidden, kernel), nn.ReLU(inplace=True),
        conv(hidden, wide, 1), nn.ReLU(inplace=True),
        conv(wide, outputs, 1),
    )


class Stage(nn.Module):
    def __init__(self, inputs, pafs, heats, kernel, wide):
        super().__init__()
        self.paf = branch(inputs, pafs, kernel, 8, wide)
        self.heat = branch(inputs, heats, kernel, 8, wide)

    def forward(self, x):
        return self.paf(x), self.heat(x)


class Model(nn.Module):
    def __init__(self, pafs=4, heats=4, features=8, refinements=2):
        super().__init__()
        self.backbone = nn.Sequential(
            conv(3, 8, 3), nn.ReLU(inplace=True),
            conv(8, 8, 3), nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            conv(8, 12, 3), nn.ReLU(inplace=True),
            conv(12, features, 3), nn.ReLU(inplace=True),
        )
        self.initial = Stage(features, pafs, heats, 3, 12)
        self.refine = nn.ModuleList(Stage(features + pafs + heats, pafs, heats, 5, 8) for _ in range(refinements))

    def forward(self, images):
        x = images.permute(0, 3, 1, 2) / 256.0 - 0.5
        features = self.backbone(x)
        stages = [self.initial(features)]
        for stage in self.refine:
            paf, heat = stages[-1]
            stages.append(stage(torch.cat([paf, heat, features], dim=1)))
        return features, stages


def masked_l2(prediction, target, mask):
    return 0.5 * ((prediction - target) * mask).square().sum()


def loss(model, images, vectmap, heatmap, mask):
    features, stages = model(images)
    vectmap = vectmap.permute(0, 3, 1, 2)
    heatmap = heatmap.permute(0, 3, 1, 2)
    mask = mask.permute(0, 3, 1, 2)
    batch = images.size(0)
    loss_paf = sum(masked_l2(paf, vectmap, mask) for paf, _ in stages) / batch
    loss_heat = sum(masked_l2(heat, heatmap, mask) for _, heat in stages) / batch
    decay = sum(0.5 * w.square().sum() for w in model.parameters() if w.dim() == 4)
    paf, heat = stages[-1]
    outputs = {"features": features, "paf": paf, "heat": heat, "loss_paf": loss_paf, "loss_heat": loss_heat}
    return loss_paf + loss_heat + 5e-4 * decay, outputs


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.004, momentum=0.9)


def rate(step):
    return 0.004 * 0.333 ** (step // 2)
