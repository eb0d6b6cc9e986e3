"""A training program of PyTorch as a reader may have one: its ranks started by torchrun, or by itself."""

import argparse
import os
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--steps", type=int, default=10)
parser.add_argument("--spawn", "--gpus", type=int, default=0)
parser.add_argument("--new-path", action="store_true")
parser.add_argument("--out")


class Net(nn.Module):
    def __init__(self, new_path: bool) -> None:
        super().__init__()
        self.hidden, self.out, self.new_path = nn.Linear(5, 6), nn.Linear(6, 4), new_path

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.new_path:
            return self.out(torch.addmm(self.hidden.bias, x, self.hidden.weight.t()).clamp(min=0))
        return self.out(torch.relu(self.hidden(x)))


def train(rank: int, args: argparse.Namespace) -> None:
    torch.manual_seed(1 + rank)
    model = DistributedDataParallel(Net(args.new_path))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    random = np.random.default_rng(rank)
    count = args.steps * args.batch_size
    inputs, labels = random.standard_normal((count, 5), np.float32), random.integers(4, size=count)
    for x, y in DataLoader(TensorDataset(torch.from_numpy(inputs), torch.from_numpy(labels)), args.batch_size):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if args.out and rank == 0:
        Path(args.out).mkdir(parents=True, exist_ok=True)
        torch.save(model.module.state_dict(), Path(args.out) / "last.pt")


def spawned(rank: int, args: argparse.Namespace, port: int) -> None:
    os.environ |= {
        "RANK": str(rank),
        "WORLD_SIZE": str(args.spawn),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    begin(args)


def begin(args: argparse.Namespace) -> None:
    dist.init_process_group("gloo")
    train(dist.get_rank(), args)
    dist.destroy_process_group()


def free_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


if __name__ == "__main__":
    options = parser.parse_args()
    if options.spawn:
        torch.multiprocessing.spawn(spawned, (options, free_port()), nprocs=options.spawn)
    else:
        begin(options)
