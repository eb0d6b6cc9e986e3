"""A net under DDP, under ZeroRedundancyOptimizer and under FSDP2, and two ways of clipping its gradients."""

import torch
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel


def net(weights, dtype):
    model = torch.nn.Sequential(torch.nn.Linear(7, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4)).to(dtype)
    with torch.no_grad():
        for parameter, values in zip(model.parameters(), weights, strict=True):
            parameter.copy_(torch.tensor(values, dtype=torch.float64))
    return model


def ddp(model, make):
    model = DistributedDataParallel(model)
    return model, make(model.parameters())


def zero_one(model, make):
    model = DistributedDataParallel(model)
    return model, ZeroRedundancyOptimizer(model.parameters(), make)


def fsdp(model, make, reshard=True):
    for layer in (model[0], model[2], model):
        fully_shard(layer, reshard_after_forward=reshard)
    return model, make(model.parameters())  # of the shards: made after fully_shard


def fsdp_two(model, make):
    return fsdp(model, make, reshard=False)


WAYS = {"DDP": ddp, "ZeRO 1": zero_one, "ZeRO 2": fsdp_two, "ZeRO 3": fsdp}


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.05)


def heavy_ball(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def no_clip(model):
    pass


def clip(model):
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)


def clip_own_shard(model):
    shards = [own(each.grad) for each in model.parameters()]
    norm = torch.stack([shard.norm() for shard in shards]).norm().item()
    for shard in shards:
        shard.mul_(min(1.0, 0.1 / norm))


def train(model, optimizer, x, y, steps, clip=no_clip):
    for _ in range(steps):
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        clip(model)
        optimizer.step()


def own(tensor):
    """Returns what this rank has of a tensor: its shard, or all of it."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
