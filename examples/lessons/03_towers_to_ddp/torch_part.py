"""The same model under DistributedDataParallel, with a hook that writes down what is reduced."""

import torch
from ranks import on_ranks
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

import torch_ddp


class Model(torch.nn.Module):
    """Two layers without biases."""

    def __init__(self, w1, w2):
        super().__init__()
        self.w1 = torch.nn.Parameter(torch.tensor(w1, dtype=torch.float64))
        self.w2 = torch.nn.Parameter(torch.tensor(w2, dtype=torch.float64))

    def forward(self, x):
        return (torch.tanh(x @ self.w1) @ self.w2)[:, 0]


def train(rank, x, y, w1, w2, learning_rate, steps):
    batch = {"x": torch.tensor(x, dtype=torch.float64), "y": torch.tensor(y, dtype=torch.float64)}
    piece = torch_ddp.shard(batch, rank.rank, rank.world_size)
    model = Model(w1, w2)
    with torch.no_grad():
        model.w1 += rank.rank  # as if every rank had drawn its own initial weights
    own = model.w1[0].tolist()
    ddp = DistributedDataParallel(model)
    wrapped, reduced = model.w1[0].tolist(), []

    def counted(state, bucket):
        reduced.append(bucket.buffer().nbytes)
        return allreduce_hook(None, bucket)

    ddp.register_comm_hook(None, counted)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=learning_rate)
    for _ in range(steps):
        optimizer.zero_grad()
        (ddp(piece["x"]) - piece["y"]).square().mean().backward()
        optimizer.step()
    return {
        "own": own,
        "wrapped": wrapped,
        "reduced": reduced,
        "weight_bytes": sum(weight.nbytes for weight in model.parameters()),
        "w1": model.w1.tolist(),
        "w2": model.w2.tolist(),
    }


def measure(x, y, w1, w2, count, learning_rate, steps):
    return {"ranks": on_ranks(train, count, x, y, w1, w2, learning_rate, steps)}
