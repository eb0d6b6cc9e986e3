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


class UsedByOne(torch.nn.Module):
    """Two layers, of which only rank 0 uses the second."""

    def __init__(self, rank):
        super().__init__()
        self.first, self.second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
        self.rank = rank

    def forward(self, x):
        x = self.first(x)
        return self.second(x) if self.rank == 0 else x


def train_unused(rank, steps):
    torch.manual_seed(0)
    ddp = DistributedDataParallel(UsedByOne(rank.rank), find_unused_parameters=True)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    x = torch.ones(1, 2) * (rank.rank + 1)
    for _ in range(steps):
        optimizer.zero_grad()
        ddp(x).sum().backward()
        optimizer.step()
    weights = {name: weight.detach().numpy() for name, weight in ddp.module.named_parameters()}
    equal = torch_ddp.ranks_agree(weights, rank, torch.device("cpu"))
    raises, plain = "", DistributedDataParallel(UsedByOne(rank.rank))
    try:
        for _ in range(2):
            plain(x).sum().backward()
    except RuntimeError as error:
        raises = str(error).split(". ")[0]
    return {"equal": equal, "raises": raises}


def measure(x, y, w1, w2, count, learning_rate, steps):
    unused = on_ranks(train_unused, count, steps)
    return {
        "ranks": on_ranks(train, count, x, y, w1, w2, learning_rate, steps),
        # Rank 0, which waited for the other, says only that it left.
        "unused": {"raises": unused[1]["raises"], "equal": all(rank["equal"] for rank in unused)},
    }
