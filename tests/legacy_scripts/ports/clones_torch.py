"""The port of clones.py: scaled losses whose gradients are summed, and weight decay in the first rank's loss."""

import torch
from torch import nn
from torch_ddp import like_tf


class Block(nn.Module):
    def __init__(self, channels_in, channels):
        super().__init__()
        self.conv = like_tf.Conv2d(channels_in, channels, 3, stride=2, padding="same", bias=False)
        self.norm = like_tf.BatchNorm2d(channels, eps=0.001, momentum=0.9)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = Block(2, 4), Block(4, 3)
        self.pool = like_tf.MaxPool2d(2, stride=1, padding="same")
        self.logits = nn.Linear(2 * 2 * 3, 3)

    def forward(self, images):
        features = self.pool(self.conv2(self.conv1(images.permute(0, 3, 1, 2))))
        return self.logits(features.permute(0, 2, 3, 1).flatten(1))


def loss(model, images, labels, everywhere=False):
    scaled = nn.functional.cross_entropy(model(images), labels.long()) / 2
    port = model.module
    decay = sum(
        each.square().sum() / 2 for each in (port.conv1.conv.weight, port.conv2.conv.weight, port.logits.weight)
    )
    return scaled + 0.004 * decay if everywhere or torch.distributed.get_rank() == 0 else scaled


def loss_with_decay_in_every_rank(model, images, labels):
    return loss(model, images, labels, everywhere=True)
