"""Trains on as many ranks as there are: digits, text, images, or a segmentation of volumes.

One machine, two ranks (on GPUs add ``--backend nccl``):

    python train.py --gpus 2 --epochs 3
    torchrun --standalone --nproc-per-node 2 --max-restarts 3 train.py --epochs 3

Two machines, one rank each; on the second ``--nr 1`` or ``--node-rank 1``:

    python train.py --nodes 2 --gpus 1 --nr 0 --rendezvous tcp://first-machine:29500
    torchrun --nnodes 2 --nproc-per-node 1 --rdzv-backend c10d --rdzv-endpoint first-machine:29500 train.py

A 3-D U-Net on patches in half precision at one of Apex's levels, with batch norm over all ranks:

    python train.py --gpus 2 --task volumes --opt-level O1 --sync-bn

It resumes by itself from the newest whole checkpoint in ``--out``: after a restart by torchrun, or when started again.
After SIGTERM or SIGUSR1 it saves a checkpoint and ends with exit code 143 or 138. Where a loss or gradient is infinite or
NaN it ends with an error, or leaves the update out (``--non-finite skip``); what was saved is finite.
"""

import argparse
import contextlib
import itertools
import json
import os
from pathlib import Path
from typing import Any

import torch
from options import REDUCTIONS, check_options, examples_per_piece, make_parser, settings_of
from tasks import TASKS, Task
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, Dataset

from torch_ddp import (
    Checkpoints,
    ExactSampler,
    GradientReduction,
    Progress,
    Rank,
    TorchDdpError,
    TrainingSampler,
    UpdateGuard,
    broadcast_statistics,
    device_of,
    evaluate_sums,
    launch,
    make_repeatable,
    mean_over_ranks,
    scaled_learning_rate,
    seed_all,
    warm_up,
)
from torch_ddp.parallel import convert_syncbn_model
from torch_ddp.train.logs import Profiler, Report
from torch_ddp.train.precision import Precision, make_precision

EVALUATION_BATCH = 100


def main() -> None:
    """Runs `train` in every rank."""
    parser = make_parser(__doc__)
    options = parser.parse_args()
    try:
        check_options(options)
    except TorchDdpError as error:
        parser.error(str(error))
    launch(train, options, options)


def train(rank: Rank, options: argparse.Namespace) -> None:
    """Trains as one of the ranks, and leaves checkpoints and ``result.json`` in ``options.out``."""
    # What is trained.
    device, out = device_of(rank, options.backend), Path(options.out)
    make_repeatable()
    seed_all(options.seed + rank.rank)  # DDP spreads rank 0's weights; dropout differs between ranks
    task = TASKS[options.task](options)
    net = task.model().to(device)
    if options.sync_bn:
        net = convert_syncbn_model(net)
    if options.compile:
        net.compile(backend=options.compile)  # in place, so that weights keep their names

    # How its weights move.
    batch_size = options.batch_size or task.batch_size
    base_rate = options.learning_rate or task.learning_rate
    optimizer = task.optimizer(net.parameters(), scaled_learning_rate(base_rate, batch_size, task.batch_size))
    rates = [group["lr"] for group in optimizer.param_groups]
    schedule = warm_up(optimizer, options.warm_up, start=1 / rank.world_size)
    half = options.half_dtype or "float16"
    precision = make_precision(net, optimizer, device, options.precision, options.opt_level, half)
    model = DistributedDataParallel(precision.net, device_ids=[device.index] if device.type == "cuda" else None)
    weighs = options.ends == "weigh"
    reduction = GradientReduction(model, "examples" if weighs else REDUCTIONS[options.reduction])

    # What data each rank gets: a share of every batch, in pieces.
    if weighs and not task.is_mean:
        raise TorchDdpError(
            f"train: expected --ends drop for {options.task}, whose loss is no mean, got weigh. Drop them."
        )
    piece = examples_per_piece(batch_size, options.accumulate, rank)
    share = piece * options.accumulate
    sampler = TrainingSampler(task.training, rank, seed=options.seed, ragged=weighs)
    loader = loader_of(task.training, share, sampler)
    # What is left goes to the ranks one by one, and each must get some.
    left = len(task.training) % batch_size
    updates = len(task.training) // batch_size + int(weighs and left >= rank.world_size)

    # Where it goes on.
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule, **precision.parts}
    checkpoints = Checkpoints(
        out / "checkpoints",
        rank,
        parts,
        device,
        keep=options.keep,
        settings=settings_of(options, batch_size, base_rate),
        override=options.override,
        background=options.background,
        sharded=options.sharded,
    )
    begun = progress = checkpoints.resume() or Progress(step=0, epoch=0, offset=0)
    if checkpoints.overridden:
        progress = take_overridden(checkpoints.overridden, progress, schedule, rates, options, rank)
    total = min(options.steps, options.epochs * updates)

    with (
        UpdateGuard(rank, device, options.non_finite, model) as guard,
        Report(rank, out, begun.step, total, not options.quiet, options.tensorboard, options.csv) as report,
        Profiler(options.profile, out / "profile" / f"rank-{rank.rank}.json", device).running() as profiler,
    ):
        while progress.epoch < options.epochs and progress.step < options.steps:
            sampler.set_epoch(progress.epoch, used=progress.offset * share)
            for batch in itertools.islice(loader, min(updates - progress.offset, total - progress.step)):
                when = f"at update {progress.step + 1}"
                pieces = list(zip(*(part.to(device).split(piece) for part in batch), strict=True))
                with reduction.weighing(len(batch[0])):
                    loss = backward(model, optimizer, precision, task, pieces, rank)
                updated = guard.admits(loss, precision.gradients(), when)
                if updated:
                    updated = precision.step()
                else:
                    precision.skip()
                guard.made(updated)
                schedule.step()  # also of an update left out, as in Apex's examples
                progress = Progress(progress.step + 1, progress.epoch, progress.offset + 1)
                if progress.step % options.report_every == 0:
                    mean = mean_over_ranks({"loss": float(loss)}, len(batch[0]), rank, device)
                    report.update(progress, {**mean, "learning_rate": optimizer.param_groups[0]["lr"]})
                if progress.step % options.save_every == 0 or guard.preempted:
                    checkpoints.save(progress)
                if guard.preempted:
                    checkpoints.wait()
                    guard.end()
                profiler.step()
            if progress.offset == updates:
                progress = Progress(progress.step, progress.epoch + 1, 0)
            measured = measure(task, model, rank, device)
            report.epoch(progress, measured)
            checkpoints.save_best(progress, measured[task.best], task.higher)

    if progress.step > begun.step:
        checkpoints.save(progress)
    checkpoints.wait()
    measured = measure(task, model, rank, device)
    if rank.rank == 0:
        write_result(out, begun, progress, measured)


def backward(
    model: DistributedDataParallel,
    optimizer: torch.optim.Optimizer,
    precision: Precision,
    task: Task,
    pieces: list[tuple[Tensor, ...]],
    rank: Rank,
) -> Tensor:
    """Leaves the gradients of all pieces of this rank's share of the batch; returns their mean loss, shape [].

    The gradients of the pieces add up in place, and travel to the other ranks with the last one only.
    """
    optimizer.zero_grad(set_to_none=True)
    examples = sum(len(piece[0]) for piece in pieces)
    total = torch.zeros((), device=pieces[0][0].device)
    for number, piece in enumerate(pieces, start=1):
        last = number == len(pieces)
        # The forward pass must be inside as well: DDP decides there whether to reduce.
        with contextlib.nullcontext() if last else model.no_sync():
            with precision.forward():
                loss = task.loss(model, list(piece), rank) * (len(piece[0]) / examples)
            precision.backward(loss, last)
        total = total + loss.detach()  # of float64 where the loss is
    return total


def measure(task: Task, model: nn.Module, rank: Rank, device: torch.device) -> dict[str, float]:
    """Returns the task's metrics over the held-out examples of all ranks, each counted once."""

    def sums(net: nn.Module, batch: list[Tensor]) -> dict[str, Tensor]:
        return task.sums(net, [part.to(device) for part in batch])

    broadcast_statistics(model, rank)
    batches = loader_of(task.held_out, EVALUATION_BATCH, ExactSampler(task.held_out, rank))
    return task.metrics(evaluate_sums(model, batches, sums, rank, device))


def take_overridden(
    overridden: dict[str, tuple[Any, Any]],
    progress: Progress,
    schedule: LambdaLR,
    rates: list[float],
    options: argparse.Namespace,
    rank: Rank,
) -> Progress:
    """Takes the new values of options that the checkpoint was made with others of; returns where the training goes on.

    Rate and warm-up count from the next update on, the seed for all that is drawn from now on, the batch size for the rest
    of the epoch, which goes on at the first update that is not made in full.
    """
    if overridden.keys() & {"--learning-rate", "--batch-size", "--warm-up", "ranks"}:
        schedule.base_lrs = rates
        factor = schedule.lr_lambdas[0](schedule.last_epoch)
        for group, rate in zip(schedule.optimizer.param_groups, rates, strict=True):
            group.update(initial_lr=rate, lr=rate * factor)
    if "--seed" in overridden:
        seed_all(options.seed + rank.rank)
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


def write_result(folder: Path, begun: Progress, progress: Progress, measured: dict[str, float]) -> None:
    """Leaves ``result.json``."""
    restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
    result = {"updates": progress.step, "begun_at": begun.step, "restarts": restarts, **measured}
    (folder / "result.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
