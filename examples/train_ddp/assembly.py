"""Puts together what one rank trains with."""

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import torch
from data import digits
from model import Net
from options import examples_per_piece, settings_of
from precision import Precision, make_precision
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, Dataset

from torch_ddp import (
    Checkpoints,
    ExactSampler,
    GradientReduction,
    Progress,
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
    schedule: LambdaLR
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
    settings = settings_of(options)
    folder = Path(options.out) / "checkpoints"
    checkpoints = Checkpoints(folder, rank, parts, device, settings=settings, override=options.override)
    training, held_out = digits()
    piece = examples_per_piece(options, rank)
    sampler = TrainingSampler(training, rank, seed=options.seed)
    loader, updates = loader_of(training, piece, sampler), len(sampler) // piece // options.accumulate
    measured = loader_of(held_out, EVALUATION_BATCH, ExactSampler(held_out, rank))
    return Training(
        rank, device, model, optimizer, schedule, precision, checkpoints, sampler, loader, measured, piece, updates
    )


def resume(training: Training, options: argparse.Namespace) -> Progress:
    """Takes the newest checkpoint, if there is one, and returns how far it had come.

    Of an overridden option the new value counts: rate and warm-up from the next update on, the seed for all that is drawn
    from now on, the batch size for the rest of the epoch, which goes on at the first update that is not made in full.
    """
    rates = [group["initial_lr"] for group in training.optimizer.param_groups]
    progress = training.checkpoints.resume() or Progress(0, 0, 0)
    overridden = training.checkpoints.overridden
    if overridden.keys() & {"--learning-rate", "--batch-size", "--warm-up"}:
        training.schedule.base_lrs = rates
        for group, rate, factor in zip(
            training.optimizer.param_groups, rates, training.schedule.lr_lambdas, strict=True
        ):
            group.update(initial_lr=rate, lr=rate * factor(training.schedule.last_epoch))
    if "--seed" in overridden:
        seed_all(options.seed + training.rank.rank)
    if "--batch-size" in overridden:
        before, now = overridden["--batch-size"]
        progress = progress._replace(offset=progress.offset * before // now)
    return progress


def loader_of(data: Dataset, batch_size: int, sampler: Any) -> DataLoader:
    """Returns a loader that leaves torch's global generator alone.

    A loader draws a number whenever it begins an epoch. A resumed epoch begins once more, and the model's own randomness
    must not notice.
    """
    return DataLoader(data, batch_size, sampler=sampler, generator=torch.Generator())
