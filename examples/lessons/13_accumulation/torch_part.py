"""One batch in micro-batches under DDP, with a hook that counts its all-reduces; and what goes wrong with them."""

import contextlib

import torch
from ranks import on_ranks
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel


class Model(torch.nn.Module):
    """A linear model without a bias."""

    def __init__(self, weights):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor(weights, dtype=torch.float64))

    def forward(self, x):
        return x @ self.w


def counted(weights):
    """Returns a model under DDP, and a list that grows by the bytes of each all-reduce."""
    model, sent = DistributedDataParallel(Model(weights)), []

    def told(state, bucket):
        sent.append(bucket.buffer().nbytes)
        return allreduce_hook(None, bucket)

    model.register_comm_hook(None, told)
    return model, sent


def loss_of(model, x, y):
    return (model(x) - y).square().mean()


def at_once(model, pieces):
    x, y = (torch.cat(parts) for parts in zip(*pieces, strict=True))
    loss_of(model, x, y).backward()


def every_piece(model, pieces):
    for x, y in pieces:
        (loss_of(model, x, y) / len(pieces)).backward()


def no_sync(model, pieces, shares):
    for place, ((x, y), share) in enumerate(zip(pieces, shares, strict=True)):
        last = place == len(pieces) - 1
        with contextlib.nullcontext() if last else model.no_sync():
            (loss_of(model, x, y) * share).backward()


def backward_alone(model, pieces):
    for place, (x, y) in enumerate(pieces):
        loss = loss_of(model, x, y) / len(pieces)  # outside: here DDP notes that this backward is to be reduced
        with contextlib.nullcontext() if place == len(pieces) - 1 else model.no_sync():
            loss.backward()


def shares_of(pieces):
    whole = sum(len(x) for x, _ in pieces)
    return [len(x) / whole for x, _ in pieces]


def run(weights, way, pieces, *shares):
    model, sent = counted(weights)
    way(model, pieces, *shares)
    return {"gradient": model.module.w.grad.tolist(), "reduces": len(sent), "bytes": sum(sent)}


def clipped(weights, pieces, most=0.5):
    """Returns the gradient of a rank's own batch, clipped to a norm: of the whole, piece by piece, and at the end."""
    found = {}
    for name in ("at once", "each piece", "at the end"):
        model = Model(weights)
        for x, y in [tuple(map(torch.cat, zip(*pieces, strict=True)))] if name == "at once" else pieces:
            before = None if model.w.grad is None else model.w.grad.clone()
            (loss_of(model, x, y) / (1 if name == "at once" else len(pieces))).backward()
            if name == "each piece":
                own = model.w.grad if before is None else model.w.grad - before
                model.w.grad = own * min(1.0, most / len(pieces) / own.norm().item()) + (
                    0 if before is None else before
                )
        if name != "each piece":
            torch.nn.utils.clip_grad_norm_([model.w], most)
        found[name] = model.w.grad.tolist()
    return found


def never_reduced(weights, pieces, rate, steps):
    """Returns a rank's weights after some steps in which the last piece was under `no_sync` like the others."""
    model, _ = counted(weights)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for _ in range(steps):
        optimizer.zero_grad()
        for x, y in pieces:
            with model.no_sync():
                (loss_of(model, x, y) / len(pieces)).backward()
        optimizer.step()
    return model.module.w.tolist()


def kept(weights, pieces):
    """Returns how many bytes a forward pass keeps for backward, of the whole batch and of the largest piece."""

    def saved(x, y):
        seen = {}
        with torch.autograd.graph.saved_tensors_hooks(
            lambda tensor: seen.setdefault((tensor.data_ptr(), tensor.shape), tensor), lambda tensor: tensor
        ):
            loss_of(Model(weights), x, y)
        return sum(tensor.nbytes for tensor in seen.values() if tensor.shape and len(tensor) == len(x))

    return {"at once": saved(*map(torch.cat, zip(*pieces, strict=True))), "pieces": max(saved(x, y) for x, y in pieces)}


def everything(rank, x, y, weights, ranks, pieces, ragged, rate, steps):
    x, y = (torch.tensor(each, dtype=torch.float64).chunk(ranks)[rank.rank] for each in (x, y))
    even = list(zip(x.chunk(pieces), y.chunk(pieces), strict=True))
    uneven = list(zip(x.split(ragged), y.split(ragged), strict=True))
    ways = {
        "at once": (at_once, even),
        "every piece": (every_piece, even),
        "no_sync": (no_sync, even, shares_of(even)),
        "backward alone": (backward_alone, even),
        "not divided": (no_sync, even, [1] * pieces),
        "ragged, means": (no_sync, uneven, [1 / len(uneven)] * len(uneven)),
        "ragged, weighed": (no_sync, uneven, shares_of(uneven)),
    }
    return {
        "runs": {name: run(weights, *way) for name, way in ways.items()},
        "clipped": clipped(weights, even),
        "never reduced": never_reduced(weights, even, rate, steps),
        "kept": kept(weights, even),
    }


def measure(x, y, weights, ranks, pieces, ragged, rate, steps):
    found = on_ranks(everything, ranks, x, y, weights, ranks, pieces, ragged, rate, steps)
    return {
        "runs": {name: [each["runs"][name] for each in found] for name in found[0]["runs"]},
        "clipped": found[0]["clipped"],
        "never reduced": [each["never reduced"] for each in found],
        "kept": found[0]["kept"],
    }
