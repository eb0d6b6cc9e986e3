"""The digits as data sets of torch."""

import sys
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import TensorDataset

sys.path.insert(0, str(Path(__file__).parents[1]))
from digits import load

HELD_OUT = 5  # every fifth


def digits() -> tuple[TensorDataset, TensorDataset]:
    """Returns the digits to train on and those held out: images float32 ``[1, 28, 28]``, labels int64."""
    images, labels = load()
    held_out = np.arange(len(images)) % HELD_OUT == 0
    return _tensors(images[~held_out], labels[~held_out]), _tensors(images[held_out], labels[held_out])


def _tensors(images: np.ndarray, labels: np.ndarray) -> TensorDataset:
    # One channel: [n, 28, 28, 1] and [n, 1, 28, 28] hold the same numbers in the same order.
    return TensorDataset(torch.from_numpy(images).reshape(-1, 1, 28, 28), torch.from_numpy(labels).long())
