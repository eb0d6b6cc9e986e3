"""Batch norm under DDP: each rank's own statistics, synchronised ones, and those of one device with the whole batch."""

import torch
from ranks import on_ranks
from torch.nn.parallel import DistributedDataParallel

import torch_ddp
from torch_ddp.parallel import convert_syncbn_model


class Model(torch.nn.Module):
    """A linear layer without bias, batch norm, tanh."""

    def __init__(self, weights, momentum, epsilon):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor(weights, dtype=torch.float64))
        # Torch weighs the new statistics, TensorFlow the old.
        self.norm = torch.nn.BatchNorm1d(1, eps=epsilon, momentum=1 - momentum, dtype=torch.float64)

    def forward(self, x):
        return torch.tanh(self.norm((x @ self.w)[:, None]))[:, 0]


def step(model, bare, x, y):
    (model(x) - y).square().mean().backward()
    statistics = bare.norm.running_mean.item(), bare.norm.running_var.item()
    return {"gradient": bare.w.grad.tolist(), "mean": statistics[0], "variance": statistics[1]}


def under_ddp(rank, x, y, weights, momentum, epsilon):
    piece = torch_ddp.shard({"x": x, "y": y}, rank.rank, rank.world_size)
    plain = Model(weights, momentum, epsilon)
    together = convert_syncbn_model(Model(weights, momentum, epsilon))
    return {
        "per rank": step(DistributedDataParallel(plain), plain, piece["x"], piece["y"]),
        "synchronised": step(DistributedDataParallel(together), together, piece["x"], piece["y"]),
    }


def measure(x, y, weights, count, momentum, epsilon):
    x, y = torch.tensor(x, dtype=torch.float64), torch.tensor(y, dtype=torch.float64)
    ranks = on_ranks(under_ddp, count, x, y, weights, momentum, epsilon)
    alone = Model(weights, momentum, epsilon)
    answer = {name: [rank[name] for rank in ranks] for name in ("per rank", "synchronised")}
    return {**answer, "whole": step(alone, alone, x, y)}
