"""Times a training step under DDP through this package beside a hand-written torch DDP loop on the same net.

Launch: ``python benchmarks/ddp_step.py [--pairs 60]``. Two ranks over gloo; each pair is ten steps of both, in turn. Prints
the median ratio with its 95% interval; the promise is at most 1.03.
"""

import argparse
import multiprocessing
import sys
from typing import Any

import torch
from pairs import in_turn, ratio
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from torch_ddp import GradientReduction, Rank, like_tf, spawn

LIMIT = 1.03
STEPS = 10


def net() -> nn.Module:
    """Returns a small convolutional net for images ``[n, 1, 28, 28]``."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(1568, 10),
    )  # fmt: skip


def by_hand(images: torch.Tensor, labels: torch.Tensor) -> Any:
    """Returns ten steps as a user writes them."""
    model = DistributedDataParallel(net())
    return _steps(model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), images, labels)


def by_package(images: torch.Tensor, labels: torch.Tensor) -> Any:
    """Returns ten steps with this package's reduction and TensorFlow's momentum."""
    model = DistributedDataParallel(net())
    GradientReduction(model, "mean")
    return _steps(model, like_tf.Momentum(model.parameters(), lr=0.01, momentum=0.9), images, labels)


def _steps(model: nn.Module, optimizer: torch.optim.Optimizer, images: torch.Tensor, labels: torch.Tensor) -> Any:
    def run() -> None:
        for _ in range(STEPS):
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()

    return run


def measure(rank: Rank, pairs: int, found: Any) -> None:
    """Times both on one rank; the first puts the seconds of both into `found`."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(rank.rank)
    images = torch.randn(32, 1, 28, 28, generator=generator)
    labels = torch.randint(0, 10, (32,), generator=generator)
    seconds = in_turn(by_package(images, labels), by_hand(images, labels), pairs)
    if rank.rank == 0:
        found.put(seconds)


def main() -> int:
    """Measures and prints; returns 0 when the promise holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=60)
    seconds = multiprocessing.get_context("spawn").SimpleQueue()
    spawn(measure, 2, parser.parse_args().pairs, seconds)
    ours, hand = seconds.get()
    found = ratio(ours, hand)
    print(f"by hand {sum(hand) / len(hand) / STEPS * 1e3:.2f} ms a step; package / by hand  {found}, promised {LIMIT}")
    return 0 if found.median <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
