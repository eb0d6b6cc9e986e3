"""Puts together what one rank trains with."""

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import torch
from data import digits
from model import Net
from options import examples_per_piece
from precision import Precision, make_precision
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader, Dataset

from torch_ddp import (
    Checkpoints,
    ExactSampler,
    GradientReduction,
    Rank,
    TrainingSampler,
    device_of,
    make_repeatable,
    scaled_learning_rate,
    seed_all,
    warm_up,
)
from torch_ddp.parallel import convert_syncbn_model

REFERENCE_BATCH = 64  # the batch size that --learning-rate belongs to
EVALUATION_BATCH = 100


class Training(NamedTuple):
    """What one rank trains with.

    Fields:
      rank: which one.
      device: where.
      model: wrapped in DDP.
      optimizer: over its parameters.
      schedule: of the learning rate, by update.
      precision: what happens around forward pass, backward pass and update.
      checkpoints: hold all of this.
      sampler: deals out the digits to train on.
      loader: of those; yields pieces.
      held_out: loader of this rank's share of the digits to measure on.
      piece: number of examples in a piece.
      updates: number of updates in an epoch.
    """

    rank: Rank
    device: torch.device
    model: DistributedDataParallel
    optimizer: torch.optim.Optimizer
    schedule: LRScheduler
    precision: Precision
    checkpoints: Checkpoints
    sampler: TrainingSampler
    loader: DataLoader
    held_out: DataLoader
    piece: int
    updates: int


def assemble(rank: Rank, options: argparse.Namespace) -> Training:
    """Returns everything, at the beginning of the training."""
    device = device_of(rank, options.backend)
    make_repeatable()
    seed_all(options.seed + rank.rank)  # DDP spreads rank 0's weights; dropout differs between ranks
    net: nn.Module = Net().to(device)
    if options.sync_bn:
        net = convert_syncbn_model(net)
    rate = scaled_learning_rate(options.learning_rate, options.batch_size, REFERENCE_BATCH)
    optimizer = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9)
    schedule = warm_up(optimizer, options.warm_up, start=1 / rank.world_size)
    precision = make_precision(options, net, optimizer, device)
    model = DistributedDataParallel(precision.net, device_ids=[device.index] if device.type == "cuda" else None)
    if options.reduction == "ordered":
        GradientReduction(model, "ordered_mean")
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule, **precision.parts}
    checkpoints = Checkpoints(Path(options.out) / "checkpoints", rank, parts, device)
    training, held_out = digits()
    piece = examples_per_piece(options, rank)
    sampler = TrainingSampler(training, rank, seed=options.seed)
    loader, updates = loader_of(training, piece, sampler), len(sampler) // piece // options.accumulate
    measured = loader_of(held_out, EVALUATION_BATCH, ExactSampler(held_out, rank))
    return Training(
        rank, device, model, optimizer, schedule, precision, checkpoints, sampler, loader, measured, piece, updates
    )


def loader_of(data: Dataset, batch_size: int, sampler: Any) -> DataLoader:
    """Returns a loader that leaves torch's global generator alone.

    A loader draws a number whenever it begins an epoch. A resumed epoch begins once more, and the model's own randomness
    must not notice.
    """
    return DataLoader(data, batch_size, sampler=sampler, generator=torch.Generator())
