"""Least squares under DDP, whose hooks send the gradient whole, in half, as its largest elements, as signs; and PowerSGD."""

import torch
import torch.distributed as dist
from ranks import on_ranks
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel


def compressor(message, read, feedback, kept):
    """Returns a hook that sends `message(gradient)` to all ranks and adds up what `read` makes of theirs.

    With feedback, what a message leaves out is kept and added to the next gradient.
    """

    def hook(state, bucket):
        whole = bucket.buffer() + kept.get("memory", 0)
        mine = message(whole)
        if feedback:
            kept["memory"] = whole - read(mine, whole)
        kept["bytes"] = sum(part.nbytes for part in mine)
        total = sum(read(theirs, whole) for theirs in gathered(mine))
        done = torch.futures.Future()
        done.set_result(total / dist.get_world_size())
        return done

    return hook


def gathered(message):
    """Returns the messages of all ranks; a message is a tuple of tensors."""
    parts = []
    for part in message:
        held = [torch.empty_like(part) for _ in range(dist.get_world_size())]
        dist.all_gather(held, part)
        parts.append(held)
    return list(zip(*parts, strict=True))


def top(count):
    """Returns how the `count` largest elements are sent, as places and values, and read."""

    def message(whole):
        places = whole.abs().topk(count).indices
        return places.to(torch.int32), whole[places]

    def read(message, like):
        places, values = message
        return torch.zeros_like(like).index_put((places.long(),), values)

    return message, read


def sign():
    """Returns how signs are sent, eight in a byte, with the mean size of the elements, and read."""
    weights = 2 ** torch.arange(8, dtype=torch.uint8)

    def message(whole):
        bits = torch.nn.functional.pad((whole >= 0).to(torch.uint8), (0, -len(whole) % 8))
        return (bits.view(-1, 8) * weights).sum(1, dtype=torch.uint8), whole.abs().mean().view(1)

    def read(message, like):
        packed, size = message
        bits = packed.unsqueeze(1).bitwise_and(weights).ne(0).view(-1)[: len(like)]
        return size * (2.0 * bits - 1.0)

    return message, read


def cast(dtype):
    return lambda whole: (whole.to(dtype),), lambda message, like: message[0].to(like.dtype)


def train(rank, x, y, rate, steps, message, read, feedback=False):
    """Returns the losses over all examples, the bytes of one message of this rank, its last weights, and what it kept."""
    model = torch.nn.Linear(x.shape[1], 1, bias=False, dtype=torch.float64)
    torch.nn.init.zeros_(model.weight)
    ddp = DistributedDataParallel(model)
    kept = {}
    ddp.register_comm_hook(None, compressor(message, read, feedback, kept))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=rate)
    mine_x, mine_y = x.chunk(rank.world_size)[rank.rank], y.chunk(rank.world_size)[rank.rank]
    losses = []
    for _ in range(steps):
        losses.append((model(x).squeeze(1) - y).square().mean().item())
        optimizer.zero_grad()
        (ddp(mine_x).squeeze(1) - mine_y).square().mean().backward()
        optimizer.step()
    losses.append((model(x).squeeze(1) - y).square().mean().item())
    left = kept["memory"].tolist() if feedback else []
    return {"losses": losses, "bytes": kept["bytes"], "weights": model.weight[0].tolist(), "memory": left}


def power(rank, feedback, steps=30, size=8):
    """Returns the losses of a matrix that torch's PowerSGD trains at rank 1."""
    torch.manual_seed(0)
    model = torch.nn.Linear(size, size, bias=False)
    torch.nn.init.zeros_(model.weight)
    wanted = torch.randn(size, size)
    inputs = torch.randn(8 * rank.world_size, size)
    x = inputs.chunk(rank.world_size)[rank.rank]
    ddp = DistributedDataParallel(model)
    state = PowerSGDState(
        None, matrix_approximation_rank=1, start_powerSGD_iter=2, use_error_feedback=feedback, warm_start=False
    )
    ddp.register_comm_hook(state, powerSGD_hook)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    losses = []
    for _ in range(steps):
        losses.append((model(inputs) - inputs @ wanted.T).square().sum(1).mean().item())
        optimizer.zero_grad()
        (ddp(x) - x @ wanted.T).square().sum(1).mean().backward()
        optimizer.step()
    before, after = state.total_numel_before_compression, state.total_numel_after_compression
    return {"losses": losses, "ratio": before / after}


def everything(rank, x, y, ranks, count, rate, steps):
    x, y = torch.tensor(x, dtype=torch.float64), torch.tensor(y, dtype=torch.float64)
    ways = {
        "all of it": cast(torch.float64),
        "half": cast(torch.float16),
        "top": top(count),
        "top, feedback": (*top(count), True),
        "sign": sign(),
        "sign, feedback": (*sign(), True),
    }
    return {
        "runs": {name: train(rank, x, y, rate, steps, *way) for name, way in ways.items()},
        "power": {"with": power(rank, True), "without": power(rank, False)},
    }


def measure(x, y, ranks, count, rate, steps):
    found = on_ranks(everything, ranks, x, y, ranks, count, rate, steps)
    first = found[0]
    for name, run in first["runs"].items():
        last = torch.tensor([each["runs"][name]["weights"] for each in found])
        run["spread"] = (last - last[0]).abs().max().item()
    return first
