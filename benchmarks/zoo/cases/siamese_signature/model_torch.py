"""Siamese net for signatures."""

import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        # 20 x 28 at stride 2: SAME is one before and two behind, in both directions
        self.features = nn.Sequential(
            nn.ZeroPad2d((1, 2, 1, 2)),
            nn.Conv2d(1, 8, kernel_size=5, stride=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2, stride=2),
            nn.Conv2d(8, 16, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2),
        )
        self.reduce = nn.Conv2d(16, 12, kernel_size=1)
        self.embedder = nn.Sequential(nn.Linear(12 * 2 * 3, 20), nn.Tanh())

    def forward_once(self, x):
        conv = self.features(x)
        x = self.reduce(conv)
        return self.embedder(x.permute(0, 2, 3, 1).flatten(1)), conv

    def forward(self, left, right):
        (left, conv), (right, _) = self.forward_once(left), self.forward_once(right)
        return left, right, conv


class ContrastiveLoss(nn.Module):
    """y is 1 for two signatures of one hand."""

    def __init__(self, margin=1.5, eps=1e-6):
        super().__init__()
        self.margin, self.eps = margin, eps

    def forward(self, a, b, y):
        distance = ((a - b).square().sum(1) + self.eps).sqrt()
        near = y * distance.square()
        far = (1 - y) * F.relu(self.margin - distance).square()
        return 0.5 * (near + far).mean(), distance


def loss(model, left, right, label):
    a, b, conv = model(left.permute(0, 3, 1, 2).contiguous(), right.permute(0, 3, 1, 2).contiguous())
    value, distance = ContrastiveLoss()(a, b, label)
    return value, {"conv": conv, "left_output": a, "right_output": b, "distance": distance}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.99, nesterov=True)
