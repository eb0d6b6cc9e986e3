"""Trains a convolutional net on handwritten digits, on as many ranks as there are; the tutorials' MNIST trainer grown up.

One machine, two ranks (on GPUs add ``--backend nccl``):

    python train.py --gpus 2 --epochs 3
    torchrun --standalone --nproc-per-node 2 --max-restarts 3 train.py --epochs 3

Two machines, one rank each; on the second ``--nr 1`` or ``--node-rank 1``:

    python train.py --nodes 2 --gpus 1 --nr 0 --rendezvous tcp://first-machine:29500
    torchrun --nnodes 2 --nproc-per-node 1 --rdzv-backend c10d --rdzv-endpoint first-machine:29500 train.py

In half precision at Apex's levels, and with batch norm over all ranks:

    python train.py --gpus 2 --opt-level O2 --sync-bn

It resumes by itself from the newest whole checkpoint in ``--out``: after a restart by torchrun, or when started again.
After SIGTERM it saves a checkpoint and ends with exit code 143.
"""

import argparse
import contextlib
import json
import os
from pathlib import Path

import torch
from assembly import Training, assemble, resume
from options import check_options, make_parser
from precision import PRECISIONS, Precision
from report import Report
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from torch_ddp import (
    Preemption,
    Progress,
    Rank,
    TorchDdpError,
    broadcast_statistics,
    check_finite,
    evaluate,
    launch,
    mean_over_ranks,
)


def main() -> None:
    """Runs `train` in every rank."""
    parser = make_parser(__doc__, PRECISIONS)
    options = parser.parse_args()
    try:
        check_options(options)
    except TorchDdpError as error:
        parser.error(str(error))
    launch(train, options, options)


def train(rank: Rank, options: argparse.Namespace) -> None:
    """Trains as one of the ranks, and leaves checkpoints and ``result.json`` in ``options.out``."""
    training = assemble(rank, options)
    begun = progress = resume(training, options)
    total = min(options.steps, options.epochs * training.updates)
    with Preemption(rank, training.device) as preemption, Report(rank, options, begun.step, total) as report:
        while progress.epoch < options.epochs and progress.step < options.steps:
            progress = train_epoch(training, progress, report, preemption, options)
            report.epoch(progress, measure(training))
    if progress.step > begun.step:
        training.checkpoints.save(progress)
    measured = measure(training)
    if rank.rank == 0:
        write_result(Path(options.out), begun, progress, measured)


def train_epoch(
    training: Training, progress: Progress, report: Report, preemption: Preemption, options: argparse.Namespace
) -> Progress:
    """Trains to the end of the epoch under way, or until there are enough updates."""
    epoch, per_update = progress.epoch, options.accumulate * training.piece
    training.sampler.set_epoch(epoch, progress.offset * per_update)
    batches = iter(training.loader)
    enough = min(training.updates, progress.offset + options.steps - progress.step)
    for offset in range(progress.offset + 1, enough + 1):
        pieces = [[part.to(training.device) for part in next(batches)] for _ in range(options.accumulate)]
        loss = update(training.model, training.precision, pieces, f"at update {progress.step + 1}")
        training.schedule.step()
        progress = Progress(progress.step + 1, epoch, offset)
        if progress.step % options.save_every == 0:
            training.checkpoints.save(progress)
        if progress.step % options.report_every == 0:
            mean = mean_over_ranks({"loss": loss}, per_update, training.rank, training.device)
            report.update(progress, mean, training.optimizer)
        if preemption.asked():
            training.checkpoints.save(progress)
            preemption.end()
    return Progress(progress.step, epoch + 1, 0) if progress.offset == training.updates else progress


def update(model: DistributedDataParallel, precision: Precision, pieces: list[list[Tensor]], when: str) -> float:
    """Makes one update from all pieces of this rank's share of the batch; returns their mean loss.

    The gradients of the pieces add up in place, and travel to the other ranks with the last one only. Infinite or NaN
    losses and gradients end the training, unless the precision skips the update and lowers its loss scale.
    """
    model.zero_grad(set_to_none=True)
    total = 0.0
    for number, (images, labels) in enumerate(pieces, start=1):
        last = number == len(pieces)
        # The forward pass must be inside as well: DDP decides there whether to reduce.
        with contextlib.nullcontext() if last else model.no_sync():
            with precision.forward():
                loss = F.cross_entropy(model(images), labels) / len(pieces)
            precision.backward(loss, last)
        total += float(loss.detach())
    if precision.step():
        gradients = ((f"the gradient of {name}", weight.grad) for name, weight in model.module.named_parameters())
        check_finite([("the loss", torch.tensor(total)), *gradients], when)
    return total


def measure(training: Training) -> dict[str, float]:
    """Returns loss and accuracy over the held-out digits, each counted once."""

    def metrics(net: nn.Module, batch: list[Tensor]) -> dict[str, Tensor]:
        images, labels = (part.to(training.device) for part in batch)
        logits = net(images)
        return {
            "loss": F.cross_entropy(logits, labels, reduction="none"),
            "accuracy": (logits.argmax(1) == labels).float(),
        }

    broadcast_statistics(training.model, training.rank)
    return evaluate(training.model, training.held_out, metrics, training.rank, training.device)


def write_result(folder: Path, begun: Progress, progress: Progress, measured: dict[str, float]) -> None:
    """Leaves ``result.json``."""
    restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
    result = {"updates": progress.step, "begun_at": begun.step, "restarts": restarts, **measured}
    (folder / "result.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
