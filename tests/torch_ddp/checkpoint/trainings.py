"""A small training with everything random in it, run in the ranks of a test."""

import random
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from torch_ddp import Checkpoints, Progress, Rank, warm_up

WIDTH = 4


def run(rank: Rank, folder: str, until: int, save_at: tuple[int, ...]) -> dict:
    """Trains to step `until` from where `folder` says; returns where it began and all weights."""
    torch.manual_seed(rank.rank)
    random.seed(rank.rank)
    np.random.seed(rank.rank)
    torch.set_num_threads(1)
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(WIDTH, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1))
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    schedule = warm_up(optimizer, 3)
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
    checkpoints = Checkpoints(folder, rank, parts)
    begun = checkpoints.resume() or Progress(0, 0, 0)
    for step in range(begun.step, until):
        # Half of a Gaussian pair stays behind in Python's and numpy's generators between steps.
        scale = random.gauss(1.0, 0.1) + np.random.standard_normal() + np.random.rand()
        loss = (model(torch.randn(6, WIDTH) * scale) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step + 1 in save_at:
            checkpoints.save(Progress(step + 1, 0, step + 1))
    return {
        "begun": tuple(begun),
        "weights": {name: value.numpy().copy() for name, value in model.module.state_dict().items()},
        "threads": torch.get_num_threads(),
    }


def load_at_all(rank: Rank, folder: str, names: list[str]) -> str:
    """Returns the error of resuming with these parts."""
    parts = {name: nn.Linear(1, 1) for name in names}
    try:
        Checkpoints(folder, rank, parts).resume()
    except ValueError as error:
        return str(error)
    return ""


def sizes(folder: Path) -> list[str]:
    return sorted(path.name[:15] for path in folder.glob("step-*.pt"))
