"""The port of mirrored_pool.py, with other pools beside."""

import torch
from torch import nn
from torch.nn import functional as F
from torch_ddp import like_tf


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 5, padding=2)
        self.fc = nn.Linear(100, 1, bias=False)

    def pool(self, x):
        return F.max_pool2d(x, 2)

    def forward(self, images):
        x = self.pool(torch.relu(self.conv(images.permute(0, 3, 1, 2))))
        return self.fc(x.permute(0, 2, 3, 1).flatten(1))


class Averages(Model):
    def pool(self, x):
        return F.avg_pool2d(x, 2)


class Overlaps(Model):
    def pool(self, x):
        return F.max_pool2d(x, 3, stride=2, padding=1)


def loss(model, images, targets):
    return (model(images) - targets).square().mean()


def optimizer_with_another_momentum(model):
    return like_tf.Momentum(model.parameters(), lr=0.001, momentum=0.8)
