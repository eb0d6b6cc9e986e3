"""Measures how much memory a rank takes at most while it resumes, over the size of the checkpoint.

Launch: ``python benchmarks/resume_memory.py [--megabytes 300] [--ranks 2]``. Needs Linux, which counts a process's largest
resident set in /proc. What is counted is what comes on top of the model and the optimizer before: the optimizer's slots,
which only a step or a checkpoint makes, whatever of the file is mapped or read, and copies. A rank whose machine lacks the
file gets it from another first; with ``--apart`` each rank has a folder of its own, and all but the first lack it. Returns 0
where the promise, 1.3, is kept for all.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from torch_ddp import Checkpoints, Progress, Rank, spawn

LIMIT = 1.3
WIDTH = 1024
OPTIMIZERS = {"momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}, 2), "adam": (torch.optim.Adam, {}, 3)}


def training(optimizer: str, megabytes: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Returns a model and its optimizer whose checkpoint has about so many megabytes."""
    kind, options, copies = OPTIMIZERS[optimizer]
    layers = round(megabytes * 1e6 / copies / (4 * WIDTH * WIDTH))
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(layers)))
    return model, kind(model.parameters(), **options)


def write(rank: Rank, folder: str, optimizer: str, megabytes: int) -> None:
    """Makes one step, and saves."""
    model, updates = training(optimizer, megabytes)
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    updates.step()
    mine = Path(folder, str(rank.rank))
    Checkpoints(mine, rank, {"model": model, "optimizer": updates}).save(Progress(1, 0, 1))


def resume(rank: Rank, folder: str, optimizer: str, megabytes: int, apart: bool, out: Any) -> None:
    """Resumes, and puts (rank, ratio) into `out`."""
    model, updates = training(optimizer, megabytes)
    machine, mine = (rank._replace(local_rank=0), Path(folder, str(rank.rank))) if apart else (rank, Path(folder, "0"))
    checkpoints = Checkpoints(mine, machine, {"model": model, "optimizer": updates})
    Path("/proc/self/clear_refs").write_text("5")  # forgets the largest resident set so far
    before = resident("VmRSS")
    assert checkpoints.resume() == Progress(1, 0, 1)
    [file] = Path(folder, "0").glob("step-*.pt")
    out.put((rank.rank, (resident("VmHWM") - before) / file.stat().st_size))


def resident(name: str) -> int:
    """Returns a row of /proc/self/status in bytes."""
    rows = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(rows[name].split()[0]) * 1024


def main() -> int:
    """Measures and prints; returns 0 where the promise is kept."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument(
        "--apart", action="store_true", help="a folder for each rank, as on machines without a common disk"
    )
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    ratios = []
    for optimizer in OPTIMIZERS:
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            spawn(write, options.ranks, folder, optimizer, options.megabytes)
            queue = torch.multiprocessing.get_context("spawn").SimpleQueue()
            spawn(resume, options.ranks, folder, optimizer, options.megabytes, options.apart, queue)
            for rank, ratio in sorted(queue.get() for _ in range(options.ranks)):
                print(f"{optimizer}, rank {rank}: {ratio:.2f} times the checkpoint of {options.megabytes} MB")
                ratios.append(ratio)
    print(f"largest {max(ratios):.2f}, promised {LIMIT}")
    return int(max(ratios) > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
