"""BYOL: a backbone and projector, trained through a predictor to match their own moving average."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm(nn.modules.batchnorm._BatchNorm):
    """Batch norm over all axes but the channels, with the biased variance in running_var."""

    def __init__(self, channels):
        super().__init__(channels, eps=1e-5, momentum=0.1)

    def forward(self, x):
        if not self.training:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)
        with torch.no_grad():
            axes = [axis for axis in range(x.ndim) if axis != 1]
            self.running_mean.lerp_(x.mean(axes), self.momentum)
            self.running_var.lerp_(x.var(axes, unbiased=False), self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.stem_norm = BatchNorm(8)
        self.down = nn.Conv2d(8, 16, 3, stride=2, bias=False)
        self.down_norm = BatchNorm(16)

    def forward(self, x):
        x = F.relu(self.stem_norm(self.stem(x)))
        x = F.pad(x, (0, 1, 0, 1))  # SAME of an even size pads behind only
        x = F.relu(self.down_norm(self.down(x)))
        return x.mean((2, 3))


def make_mlp(inputs, hidden, outputs):
    return nn.Sequential(
        nn.Linear(inputs, hidden), BatchNorm(hidden), nn.ReLU(inplace=True), nn.Linear(hidden, outputs, bias=False)
    )


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        self.projection = make_mlp(16, 32, 12)

    def forward(self, x):
        features = self.backbone(x)
        return features, self.projection(features)


class BYOL(nn.Module):
    def __init__(self, tau=0.97):
        super().__init__()
        self.tau = tau
        self.student = Branch()
        self.predictor = make_mlp(12, 32, 12)
        self.teacher = copy.deepcopy(self.student)
        self.teacher.requires_grad_(False)

    def forward(self, view1, view2):
        images = torch.cat([view1, view2])
        features, projection = self.student(images)
        prediction = self.predictor(projection)
        goal = self.teacher(images)[1]
        return features, projection, prediction, goal

    @torch.no_grad()
    def update_teacher(self):
        for slow, fast in zip(self.teacher.parameters(), self.student.parameters()):
            slow.mul_(self.tau).add_(fast, alpha=1.0 - self.tau)


def distance(prediction, goal):
    return (F.normalize(prediction, dim=-1) - F.normalize(goal, dim=-1)).pow(2).sum(-1)


def loss(model, view1, view2):
    views = [view.permute(0, 3, 1, 2).contiguous() for view in (view1, view2)]
    features, projection, prediction, goal = model(*views)
    p1, p2 = prediction.chunk(2)
    g1, g2 = goal.chunk(2)
    byol = (distance(p1, g2) + distance(p2, g1)).mean()
    penalty = sum(p.pow(2).sum() for name, p in model.named_parameters() if "teacher" not in name and p.ndim > 1)
    outputs = {"features": features, "projection": projection, "prediction": prediction, "target": goal, "byol": byol}
    return byol + 0.5e-3 * penalty, outputs


def optimizer(model):
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.2, momentum=0.9)


def scheduler(optimizer, total=6):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * min(step, total) / total)))


def step(model, optimizer, scheduler, view1, view2):
    optimizer.zero_grad()
    total, outputs = loss(model, view1, view2)
    total.backward()
    model.module.update_teacher()  # towards the weights of this step, as the original orders it
    optimizer.step()
    scheduler.step()
    return total, outputs
