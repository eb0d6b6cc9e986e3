"""Times a training step under DDP through this package beside a hand-written torch DDP loop on the same net.

Launch: ``python benchmarks/ddp_step.py [--pairs 400] [--guarded]``. Two ranks over gloo, each on CPUs of its own where there
are enough; two steps of both make a pair, and who goes first swaps. Pairs are added until the 95% interval of the median
ratio lies on one side of the promise, 1.03, or there are enough of them. CPU time is printed beside the time on the clock:
it does not see how long a rank waits, and is hardly moved by whatever else runs on the machine. Guarded, each step of the
package goes through an `UpdateGuard`, as in a training that stops at NaNs and signals, which the loop by hand does not see.
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from pairs import Ratio, ratio
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from torch_ddp import GradientReduction, Rank, UpdateGuard, like_tf, spawn

LIMIT = 1.03
STEPS = 2
BLOCK = 20  # pairs between two looks at the interval
WARM_UP = 4
OPTIMIZERS = {
    "momentum": (
        lambda weights: like_tf.Momentum(weights, lr=0.01, momentum=0.9),
        lambda weights: torch.optim.SGD(weights, lr=0.01, momentum=0.9),
    ),
    "adam": (
        lambda weights: like_tf.Adam(weights, lr=0.001),
        lambda weights: torch.optim.Adam(weights, lr=0.001),
    ),
}


class Times(NamedTuple):
    """What both took, one entry for each pair.

    Fields:
      wall: seconds on the clock: package, by hand.
      cpu: seconds of CPU time of this rank: the same.
    """

    wall: tuple[list[float], list[float]]
    cpu: tuple[list[float], list[float]]


def net() -> nn.Module:
    """Returns a convolutional net for images ``[n, 1, 28, 28]``, with 0.46 million weights."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def by_hand(images: torch.Tensor, labels: torch.Tensor, optimizer: str) -> Callable[[], None]:
    """Returns steps as a user writes them."""
    model = DistributedDataParallel(net())
    return _steps(model, OPTIMIZERS[optimizer][1](model.parameters()), images, labels)


def by_package(
    images: torch.Tensor, labels: torch.Tensor, optimizer: str, guard: UpdateGuard | None
) -> Callable[[], None]:
    """Returns steps with this package's reduction and TensorFlow's optimizer."""
    model = DistributedDataParallel(net())
    GradientReduction(model, "mean")
    return _steps(model, OPTIMIZERS[optimizer][0](model.parameters()), images, labels, guard)


def _steps(
    model: nn.Module, optimizer: Any, images: torch.Tensor, labels: torch.Tensor, guard: UpdateGuard | None = None
) -> Callable[[], None]:
    weights = list(model.named_parameters())

    def run() -> None:
        for step in range(STEPS):
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            if guard is not None:
                guard.admits(loss, ((name, weight.grad) for name, weight in weights), f"at update {step}")
                guard.made(True)
            optimizer.step()

    return run


def measure(rank: Rank, optimizer: str, pairs: int, guarded: bool, found: Any) -> None:
    """Times both on one rank; the first puts the `Times` into `found`."""
    torch.set_num_threads(1)
    _pin(rank)
    generator = torch.Generator().manual_seed(rank.rank)
    images = torch.randn(32, 1, 28, 28, generator=generator)
    labels = torch.randint(0, 10, (32,), generator=generator)
    guard = UpdateGuard(rank) if guarded else None
    both = (by_package(images, labels, optimizer, guard), by_hand(images, labels, optimizer))
    times = Times(([], []), ([], []))
    for pair in range(-WARM_UP, pairs):
        for which in (0, 1) if pair % 2 else (1, 0):
            wall, cpu = time.perf_counter(), time.process_time()
            both[which]()
            if pair >= 0:
                times.wall[which].append(time.perf_counter() - wall)
                times.cpu[which].append(time.process_time() - cpu)
        if pair > 0 and pair % BLOCK == 0 and _agreed(decided(ratio(*times.wall))):
            break
    if rank.rank == 0:
        found.put(tuple(times))


def decided(found: Ratio) -> bool:
    """Returns whether the interval lies on one side of the promise."""
    return found.high <= LIMIT or found.low > LIMIT


def verdict(found: Ratio) -> tuple[str, int]:
    """Returns what the interval says of the promise, and the exit code: 0 kept, 1 broken, 2 undecided."""
    if found.high <= LIMIT:
        return "kept", 0
    return ("broken", 1) if found.low > LIMIT else ("undecided: run it on a quieter machine", 2)


def _agreed(own: bool) -> bool:
    # All ranks have to stop after the same pair; the first one's clock counts.
    flag = torch.tensor([int(own)])
    dist.broadcast(flag, src=0)
    return bool(flag.item())


def _pin(rank: Rank) -> None:
    if hasattr(os, "sched_setaffinity"):
        mine = sorted(os.sched_getaffinity(0))[rank.rank :: rank.world_size]
        os.sched_setaffinity(0, mine or os.sched_getaffinity(0))


def main() -> int:
    """Measures and prints; returns 0 when the promise is kept, 1 when not, 2 when that cannot be told here."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=400, help="at most")
    parser.add_argument("--guarded", action="store_true", help="with an UpdateGuard")
    parser.add_argument("--optimizer", choices=sorted(OPTIMIZERS), default="momentum")
    options = parser.parse_args()
    queue = multiprocessing.get_context("spawn").SimpleQueue()
    spawn(measure, 2, options.optimizer, options.pairs, options.guarded, queue)
    times = Times(*queue.get())
    hand = sorted(times.wall[1])[len(times.wall[1]) // 2] / STEPS * 1e3
    said, code = verdict(ratio(*times.wall))
    what = options.optimizer + ", guarded" * options.guarded
    print(f"by hand {hand:.2f} ms a step, {what}; package / by hand, promised {LIMIT}: {said}")
    print(f"  clock     {ratio(*times.wall)}")
    print(f"  CPU time  {ratio(*times.cpu)}")
    return code


if __name__ == "__main__":
    sys.exit(main())
