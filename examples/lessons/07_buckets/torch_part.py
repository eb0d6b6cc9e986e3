"""A net of equal layers under DDP, with hooks that write down when a gradient is ready and when a bucket is sent."""

import hashlib

import torch
from ranks import on_ranks
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel


def make(layers, width):
    torch.manual_seed(0)
    return torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(layers)))


def watch(model, ddp, events):
    """Has `events` tell, in order, whose gradient is ready and which layers are in a bucket that is sent."""
    layer_of = {weight: int(name.split(".")[0]) for name, weight in model.named_parameters()}
    for weight, layer in layer_of.items():
        weight.register_hook(lambda gradient, layer=layer: events.append({"what": "ready", "layer": layer}))

    def told(state, bucket):
        inside = sorted({layer_of[weight] for weight in bucket.parameters()}, reverse=True)
        events.append({"what": "sent", "layers": inside, "bytes": bucket.buffer().nbytes})
        return allreduce_hook(None, bucket)

    ddp.register_comm_hook(None, told)


def train(rank, layers, width, cap):
    model = make(layers, width)
    ddp = DistributedDataParallel(model, bucket_cap_mb=cap)
    events = []
    watch(model, ddp, events)
    batch = torch.randn(4, width, generator=torch.Generator().manual_seed(rank.rank))
    for _ in range(2):  # after the first step DDP makes its buckets anew, in the order in which gradients got ready
        events.clear()
        model.zero_grad()
        ddp(batch).square().mean().backward()
    bits = b"".join(weight.grad.numpy().tobytes() for weight in model.parameters())
    return {"events": events, "digest": hashlib.sha256(bits).hexdigest()}


def unused(rank, layers, width):
    """Returns what DDP says when a layer took no part in the step before."""
    model = make(layers, width)
    model.spare = torch.nn.Linear(width, width)
    model.forward = lambda x: torch.nn.Sequential.forward(model[:layers], x)
    ddp = DistributedDataParallel(model)
    try:
        for _ in range(2):
            ddp(torch.randn(4, width)).square().mean().backward()
    except RuntimeError as error:
        return str(error).split(". ")[0]
    return "nothing"


def everything(rank, layers, width, caps):
    runs = {name: train(rank, layers, width, cap) for name, cap in caps.items()}
    return {"runs": runs, "unused": unused(rank, layers, width)}


def measure(layers, width, caps):
    return on_ranks(everything, 2, layers, width, caps)[0]
