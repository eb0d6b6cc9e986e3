"""Images of any size, a small residual net.

``--data FILE.npz`` has `images` uint8 ``[n, height, width, channels]`` and `labels` ``[n]``; without it four kinds of shapes
are drawn in colours and noise, ``--size`` pixels wide and high.
"""

import argparse
import functools
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from tasks.task import Task, classification_loss, classification_metrics, classification_sums, sgd

DRAWN = 600
HELD_OUT = 6  # every sixth
SHAPES = ("disc", "square", "ring", "cross")


def task(options: argparse.Namespace) -> Task:
    """Returns the task; `size` is the side of an image in pixels."""
    images, labels = read(Path(options.data)) if options.data else draw(DRAWN, options.size or 32)
    held_out = np.arange(len(images)) % HELD_OUT == 0
    return Task(
        training=_tensors(images[~held_out], labels[~held_out]),
        held_out=_tensors(images[held_out], labels[held_out]),
        model=functools.partial(ResidualNet, images.shape[-1], int(labels.max()) + 1),
        optimizer=sgd,
        learning_rate=0.05,
        batch_size=32,
        loss=classification_loss,
        sums=classification_sums,
        metrics=classification_metrics,
        best="accuracy",
        higher=True,
    )


def read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Returns images float32 ``[n, height, width, channels]`` in 0 to 1, and labels int64 ``[n]``."""
    with np.load(path, allow_pickle=False) as file:
        return (file["images"] / np.float32(255)).astype(np.float32), file["labels"].astype(np.int64)


def draw(count: int, size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Returns drawn shapes: images float32 ``[count, size, size, 3]``, labels int64 ``[count]``."""
    random = np.random.default_rng(seed)
    labels = random.integers(len(SHAPES), size=count)
    rows, columns = np.mgrid[:size, :size] / size
    images = random.normal(0.4, 0.1, (count, size, size, 3)).astype(np.float32)
    for image, label in zip(images, labels, strict=True):
        x, y = random.uniform(0.35, 0.65, 2)
        radius = random.uniform(0.15, 0.3)
        right, down = np.abs(columns - x), np.abs(rows - y)
        distance, largest = np.hypot(right, down), np.maximum(right, down)
        inside = {
            "disc": distance < radius,
            "square": largest < radius,
            "ring": (distance < radius) & (distance > 0.6 * radius),
            "cross": (np.minimum(right, down) < 0.25 * radius) & (largest < radius),
        }[SHAPES[label]]
        image[inside] += random.uniform(0.2, 0.6, 3).astype(np.float32)
    return images, labels.astype(np.int64)


def _tensors(images: np.ndarray, labels: np.ndarray) -> TensorDataset:
    # torch has channels before rows.
    return TensorDataset(torch.from_numpy(images).permute(0, 3, 1, 2).contiguous(), torch.from_numpy(labels))


class ResidualNet(nn.Module):
    """Maps images ``[n, channels, height, width]`` of any size to logits ``[n, classes]``."""

    def __init__(self, channels: int, classes: int, widths: tuple[int, ...] = (16, 32, 64)) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, widths[0], 3, padding=1, bias=False)
        pairs = zip((widths[0], *widths[:-1]), widths, strict=True)
        self.blocks = nn.Sequential(*(Residual(inputs, outputs) for inputs, outputs in pairs))
        self.logits = nn.Linear(widths[-1], classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.logits(self.blocks(self.first(images)).mean((2, 3)))


class Residual(nn.Module):
    """Two convolutions and a way past them; halves height and width where the number of channels changes."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        stride = 1 if inputs == outputs else 2
        self.norm1, self.norm2 = nn.BatchNorm2d(inputs), nn.BatchNorm2d(outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.past = nn.Identity() if stride == 1 else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        active = nn.functional.relu(self.norm1(x))
        return self.past(x) + self.conv2(nn.functional.relu(self.norm2(self.conv1(active))))
