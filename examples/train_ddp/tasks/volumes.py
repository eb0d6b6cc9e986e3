"""Segmentation of volumes: a 3-D U-Net on patches, with Dice as loss and as metric.

The volumes are drawn, as medical ones look: two kinds of bodies in noise and a bright field. ``--size`` is the side of a
patch. Best with ``--sync-bn --opt-level O1``: few patches fit a rank, and batch norm wants more than its own.
"""

import argparse
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from tasks.task import Batch, Task, adam
from torch_ddp import Rank, sum_over_ranks

VOLUMES, HELD_OUT = 12, 3
SIDE = 32  # of a volume, in voxels
CLASSES = 3  # background and two kinds of bodies
SMOOTHING = 1.0  # voxels; a class that is nowhere has a Dice of 1


def task(options: argparse.Namespace) -> Task:
    """Returns the task; `size` is the side of a patch in voxels, a multiple of 4."""
    volumes, labels = draw(VOLUMES)
    size = options.size or 16
    return Task(
        training=Patches(volumes[HELD_OUT:], labels[HELD_OUT:], size, size // 2),
        held_out=Patches(volumes[:HELD_OUT], labels[:HELD_OUT], size, size),
        model=UNet,
        optimizer=adam,
        learning_rate=2e-3,
        batch_size=8,
        loss=dice_loss,
        sums=overlap_sums,
        metrics=dice_metrics,
        best="dice",
        higher=True,
        is_mean=False,
    )


def draw(count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Returns volumes float32 ``[count, 1, 32, 32, 32]`` and the class of each voxel, int64 ``[count, 32, 32, 32]``."""
    random = np.random.default_rng(seed)
    grid = np.stack(np.mgrid[:SIDE, :SIDE, :SIDE]).astype(np.float32)
    labels = np.zeros((count, SIDE, SIDE, SIDE), np.int64)
    for volume in labels:
        for kind in (1, 1, 2, 2):
            middle = random.uniform(8, SIDE - 8, (3, 1, 1, 1))
            radii = random.uniform(3, 7, (3, 1, 1, 1))
            volume[(((grid - middle) / radii) ** 2).sum(0) < 1] = kind
    brightness = np.array([0.0, 1.0, -1.0], np.float32)[labels]
    field = 0.02 * grid[0] * random.uniform(-1, 1, (count, 1, 1, 1)).astype(np.float32)
    noise = random.normal(0, 0.5, labels.shape).astype(np.float32)
    return torch.from_numpy(brightness + field + noise)[:, None], torch.from_numpy(labels)


class Patches(Dataset[Any]):
    """All patches of volumes, at places `stride` voxels from each other: float32 ``[1, size, size, size]`` and classes."""

    def __init__(self, volumes: Tensor, labels: Tensor, size: int, stride: int) -> None:
        self._volumes, self._labels, self._size = volumes, labels, size
        places = range(0, SIDE - size + 1, stride)
        self._corners = [(v, x, y, z) for v in range(len(volumes)) for x in places for y in places for z in places]

    def __len__(self) -> int:
        return len(self._corners)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        volume, *corner = self._corners[index]
        box = tuple(slice(begin, begin + self._size) for begin in corner)
        return self._volumes[(volume, slice(None), *box)], self._labels[(volume, *box)]


class UNet(nn.Module):
    """Maps patches ``[n, 1, x, y, z]``, sides multiples of 4, to logits ``[n, 3, x, y, z]``."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.down1, self.down2 = convolutions(1, width), convolutions(width, 2 * width)
        self.bottom = convolutions(2 * width, 4 * width)
        self.rise2 = nn.ConvTranspose3d(4 * width, 2 * width, 2, stride=2)
        self.rise1 = nn.ConvTranspose3d(2 * width, width, 2, stride=2)
        self.up2, self.up1 = convolutions(4 * width, 2 * width), convolutions(2 * width, width)
        self.logits = nn.Conv3d(width, CLASSES, 1)

    def forward(self, patches: Tensor) -> Tensor:
        fine = self.down1(patches)
        middle = self.down2(nn.functional.max_pool3d(fine, 2))
        coarse = self.bottom(nn.functional.max_pool3d(middle, 2))
        middle = self.up2(torch.cat([middle, self.rise2(coarse)], 1))
        return self.logits(self.up1(torch.cat([fine, self.rise1(middle)], 1)))


def convolutions(inputs: int, outputs: int) -> nn.Sequential:
    """Convolves 3x3x3, normalises and rectifies, twice."""
    layers = functools.partial(nn.Conv3d, kernel_size=3, padding=1, bias=False)
    first = (layers(inputs, outputs), nn.BatchNorm3d(outputs), nn.ReLU())
    return nn.Sequential(*first, layers(outputs, outputs), nn.BatchNorm3d(outputs), nn.ReLU())


def dice_loss(model: nn.Module, batch: Batch, rank: Rank) -> Tensor:
    """Returns one minus the mean soft Dice of the bodies, plus cross entropy, over the patches of all ranks together.

    Dice is a ratio of sums: the mean of the ranks' ratios is another loss, and the worse the fewer patches a rank has.
    """
    patches, labels = batch
    logits = model(patches).float()
    own = overlaps(logits.softmax(1), nn.functional.one_hot(labels, CLASSES).movedim(-1, 1).float())
    both, predicted, actual = sum_over_ranks(own, rank)
    dice = (2 * both[1:] + SMOOTHING) / (predicted[1:] + actual[1:] + SMOOTHING)
    return 1 - dice.mean() + nn.functional.cross_entropy(logits, labels)


def overlap_sums(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    """Returns the numbers of voxels that Dice is made of, by class; those of all patches add up."""
    patches, labels = batch
    classes = model(patches).argmax(1)
    one_hot = [nn.functional.one_hot(each, CLASSES).movedim(-1, 1).double() for each in (classes, labels)]
    return {"overlaps": overlaps(*one_hot)}


def overlaps(predicted: Tensor, actual: Tensor) -> Tensor:
    """Returns ``[3, classes]``: what both have in common, what each has, of shares ``[n, classes, x, y, z]``."""
    return torch.stack([each.sum((0, 2, 3, 4)) for each in (predicted * actual, predicted, actual)])


def dice_metrics(sums: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Returns the Dice coefficient of each kind of body, and their mean; 1 for one that is nowhere."""
    both, predicted, actual = sums["overlaps"]
    each = [
        1.0 if not whole else float(2 * common / whole) for common, whole in zip(both, predicted + actual, strict=True)
    ]
    return {"dice": sum(each[1:]) / (CLASSES - 1), "dice_1": each[1], "dice_2": each[2]}
