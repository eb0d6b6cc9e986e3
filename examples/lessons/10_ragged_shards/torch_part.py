"""Who gets which example, what the metric comes to, and the gradient over shards of unequal size."""

import torch
from ranks import on_ranks
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

import torch_ddp
from torch_ddp.reduction import ExampleCounts, weighted_mean_hook


def deal(data, rank):
    """Returns the indices that this rank gets, by three samplers."""
    padded = DistributedSampler(data, rank.world_size, rank.rank, shuffle=False)
    dropping = DistributedSampler(data, rank.world_size, rank.rank, shuffle=False, drop_last=True)
    exact = torch_ddp.ExactSampler(data, rank)
    return {"padded": list(padded), "dropping": list(dropping), "exact": list(exact)}


def gradient(x, y, weights, weighted):
    model = torch.nn.Linear(len(weights), 1, bias=False, dtype=torch.float64)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([weights]))
    ddp = DistributedDataParallel(model)
    counts = ExampleCounts()
    if weighted:
        ddp.register_comm_hook(counts, weighted_mean_hook)
    with counts.of(len(x)):
        (ddp(x)[:, 0] - y).square().mean().backward()
    return model.weight.grad[0].tolist()


def everything(rank, x, y, weights):
    dealt = deal(y, rank)
    squared = (x @ torch.tensor(weights, dtype=torch.float64) - y).square()
    mine = squared[dealt["exact"]]
    evaluated = torch_ddp.evaluate(torch.nn.Identity(), [mine], lambda model, batch: {"error": model(batch)}, rank)
    shards = torch.tensor_split(x, rank.world_size)[rank.rank], torch.tensor_split(y, rank.world_size)[rank.rank]
    return {
        "dealt": dealt,
        "evaluated": evaluated["error"],
        "mean": gradient(*shards, weights, weighted=False),
        "examples": gradient(*shards, weights, weighted=True),
    }


def measure(x, y, weights, ranks):
    x, y = torch.tensor(x, dtype=torch.float64), torch.tensor(y, dtype=torch.float64)
    answers = on_ranks(everything, ranks, x, y, weights)
    dealt = {name: [answer["dealt"][name] for answer in answers] for name in answers[0]["dealt"]}
    return {**answers[0], "dealt": dealt}
