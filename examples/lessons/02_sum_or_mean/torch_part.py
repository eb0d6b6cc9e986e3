"""Two ranks under DistributedDataParallel, as it comes and with the hook that sums."""

import torch
from ranks import on_ranks
from torch.nn.parallel import DistributedDataParallel

import torch_ddp
from torch_ddp.reduction import sum_hook


def train(rank, x, y, weights, learning_rate, steps, how):
    batch = {"x": torch.tensor(x, dtype=torch.float64), "y": torch.tensor(y, dtype=torch.float64)}
    piece = torch_ddp.shard(batch, rank.rank, rank.world_size)
    model = torch.nn.Linear(len(weights), 1, bias=False, dtype=torch.float64)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([weights]))
    ddp = DistributedDataParallel(model)
    if how == "sum":
        ddp.register_comm_hook(None, sum_hook)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=learning_rate)
    for _ in range(steps):
        optimizer.zero_grad()
        (ddp(piece["x"])[:, 0] - piece["y"]).square().mean().backward()
        optimizer.step()
    return model.weight[0].tolist()


def measure(x, y, weights, learning_rate, steps, counts, limit):
    return {how: on_ranks(train, 2, x, y, weights, learning_rate / 2, 3, how)[0] for how in ("mean", "sum")}
