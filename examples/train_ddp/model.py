"""The net."""

import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    """Maps images ``[n, 1, 28, 28]`` to logits ``[n, 10]``."""

    def __init__(self) -> None:
        super().__init__()
        self.layer1 = block(1, 8)
        self.layer2 = block(8, 16)
        self.dropout = nn.Dropout(0.2)
        self.logits = nn.Linear(7 * 7 * 16, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = self.layer2(self.layer1(images)).flatten(1)
        return self.logits(self.dropout(F.relu(features)))


def block(inputs: int, channels: int) -> nn.Sequential:
    """Convolves 5x5, normalises, rectifies, pools 2x2: ``[n, c, h, w]`` to ``[n, channels, h / 2, w / 2]``."""
    return nn.Sequential(
        nn.Conv2d(inputs, channels, 5, padding=2), nn.BatchNorm2d(channels), nn.ReLU(), nn.MaxPool2d(2)
    )
