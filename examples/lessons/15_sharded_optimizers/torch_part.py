"""One net under DDP, under ZeroRedundancyOptimizer and under FSDP2: what a rank holds, sends, clips and saves."""

import torch
from order_of_sums import orders
from ranks import on_ranks
from sharded_ways import WAYS, adam, clip, clip_own_shard, fsdp, heavy_ball, net, no_clip, own, train, zero_one
from source_lines import lines_of
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp._fully_shard import _fsdp_collectives
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.debug import CommDebugMode


def whole(model):
    """Returns all weights in one row, gathered from the ranks where they are shards."""
    parts = [each.full_tensor() if isinstance(each, DTensor) else each for each in model.parameters()]
    return torch.cat([part.detach().reshape(-1) for part in parts])


def run(way, data, dtype, make=adam, clip=no_clip, steps=5):
    """Returns the weights behind some steps, and what a rank holds and sends."""
    model, optimizer = WAYS[way](net(data["weights"], dtype), make)
    x, y = data["x"].to(dtype), data["y"].to(dtype)
    train(model, optimizer, x, y, steps, clip)
    held = getattr(optimizer, "optim", optimizer).state.values()
    slots = [own(slot) for slots in held for name, slot in slots.items() if name != "step"]
    seen = {
        "weights": sum(own(each).nbytes for each in model.parameters()),
        "gradients": sum(own(each.grad).nbytes for each in model.parameters()),
        "slots": sum(slot.nbytes for slot in slots if slot is not None),
        "last": whole(model).tolist(),
    }
    with CommDebugMode() as sent:
        train(model, optimizer, x, y, 1, clip)
    seen["sent"] = {str(name).rpartition(".")[2].strip("_"): count for name, count in sent.get_comm_counts().items()}
    model(x)
    seen["between"] = sum(own(each).nbytes for each in model.parameters())
    return seen


def saved(rank, data):
    """Returns how many numbers rank 0 would save of its own, and of all; and what ZeroRedundancyOptimizer says."""
    model, optimizer = fsdp(net(data["weights"], torch.float64), adam)
    train(model, optimizer, data["x"], data["y"], 2)
    full = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    found = {"shard": sum(own(each).numel() for each in model.parameters()), "gathered": whole(model).tolist()}
    if rank.rank == 0:  # the others were given nothing
        alone = net(data["weights"], torch.float64)
        alone.load_state_dict(full)
        found |= {"full": sum(map(torch.numel, full.values())), "loaded": whole(alone).tolist()}
    model, optimizer = zero_one(net(data["weights"], torch.float64), adam)
    train(model, optimizer, data["x"], data["y"], 2)
    try:
        optimizer.state_dict()
    except RuntimeError as error:
        found["refused"] = str(error)
    optimizer.consolidate_state_dict(to=0)
    return found | {"consolidated": len(optimizer.state_dict()["state"]) if rank.rank == 0 else 0}


def gradients_of(rank, data):
    """Returns this rank's own gradient at the first weights, before anything is combined."""
    model = net(data["weights"], torch.float64)
    (model(data["x"]) - data["y"]).square().mean().backward()
    return torch.cat([each.grad.reshape(-1) for each in model.parameters()]).tolist()


def everything(rank, x, y, weights):
    x, y = (torch.tensor(each, dtype=torch.float64).chunk(rank.world_size)[rank.rank] for each in (x, y))
    data = {"x": x, "y": y, "weights": weights}
    plain = {name: {way: run(way, data, getattr(torch, name)) for way in WAYS} for name in ("float32", "float64")}
    ways = {"DDP": clip, "ZeRO 1": clip, "ZeRO 3": clip, "own": clip_own_shard}
    clipped = {
        name: run(name.replace("own", "ZeRO 3"), data, torch.float64, heavy_ball, how, steps=1)["last"]
        for name, how in ways.items()
    }
    return {
        **plain,
        "clipped": clipped,
        "saved": saved(rank, data),
        "gradient": gradients_of(rank, data),
        "orders": orders(rank),
    }


def measure(x, y, weights, worlds):
    return {
        "worlds": {str(size): on_ranks(everything, size, x, y, weights) for size in worlds},
        "lines": lines_of(
            partition=ZeroRedundancyOptimizer._partition_parameters,
            step=ZeroRedundancyOptimizer.step,
            consolidate=ZeroRedundancyOptimizer.consolidate_state_dict,
            gather=_fsdp_collectives.foreach_all_gather,
            reduce=_fsdp_collectives.foreach_reduce,
            norm=torch.nn.utils.clip_grad._get_total_norm,
        ),
    }
