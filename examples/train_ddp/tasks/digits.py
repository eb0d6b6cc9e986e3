"""Handwritten digits, a small convolutional net: the tutorials' MNIST trainer."""

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from tasks.task import Task, classification_loss, classification_metrics, classification_sums, sgd

sys.path.insert(0, str(Path(__file__).parents[2]))
from digits import load

HELD_OUT = 5  # every fifth


def task(options: argparse.Namespace) -> Task:
    """Returns the task; it has no options."""
    training, held_out = digits()
    return Task(
        training=training,
        held_out=held_out,
        model=Net,
        optimizer=sgd,
        learning_rate=0.05,
        batch_size=64,
        loss=classification_loss,
        sums=classification_sums,
        metrics=classification_metrics,
        best="accuracy",
        higher=True,
    )


def digits() -> tuple[TensorDataset, TensorDataset]:
    """Returns the digits to train on and those held out: images float32 ``[1, 28, 28]``, labels int64."""
    images, labels = load()
    held_out = np.arange(len(images)) % HELD_OUT == 0
    return _tensors(images[~held_out], labels[~held_out]), _tensors(images[held_out], labels[held_out])


def _tensors(images: np.ndarray, labels: np.ndarray) -> TensorDataset:
    # One channel: [n, 28, 28, 1] and [n, 1, 28, 28] hold the same numbers in the same order.
    return TensorDataset(torch.from_numpy(images).reshape(-1, 1, 28, 28), torch.from_numpy(labels).long())


class Net(nn.Module):
    """Maps images ``[n, 1, 28, 28]`` to logits ``[n, 10]``."""

    def __init__(self) -> None:
        super().__init__()
        self.layer1 = block(1, 8)
        self.layer2 = block(8, 16)
        self.dropout = nn.Dropout(0.2)
        self.logits = nn.Linear(7 * 7 * 16, 10)

    def forward(self, images: Tensor) -> Tensor:
        features = self.layer2(self.layer1(images)).flatten(1)
        return self.logits(self.dropout(nn.functional.relu(features)))


def block(inputs: int, channels: int) -> nn.Sequential:
    """Convolves 5x5, normalises, rectifies, pools 2x2: ``[n, c, h, w]`` to ``[n, channels, h / 2, w / 2]``."""
    return nn.Sequential(
        nn.Conv2d(inputs, channels, 5, padding=2), nn.BatchNorm2d(channels), nn.ReLU(), nn.MaxPool2d(2)
    )
