"""Horovod's way of combining gradients beside DDP's; and gradients that come late, by a race and by choice."""

import torch
from fused_mean import DistributedOptimizer
from late_gradients import serve, train_with_delay, work
from ranks import on_ranks
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_, parameters_to_vector

WIDTH = 16
CLIP = 0.05


def net():
    torch.manual_seed(17)
    layers = [torch.nn.Linear(4, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, 1)).double()


def loss_on(x, y):
    return lambda model: (model(x).squeeze(1) - y).square().mean()


def flat(model):
    return parameters_to_vector(model.parameters()).detach()


def by_horovod(loss_of, threshold, steps=5):
    """Returns the weights behind some steps, and the bytes of each message of the last one."""
    model = net()
    optimizer = DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.parameters(), 1, threshold)
    for _ in range(steps):
        optimizer.sent = []
        loss_of(model).backward()
        optimizer.step()
    return flat(model), optimizer.sent


def by_ddp(loss_of, steps=5):
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()
    return flat(model)


def gradient_of_passes(losses):
    """Returns the gradient that an update takes, of as many backward passes, and how many messages it took."""
    model = net()
    optimizer = DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.parameters(), len(losses))
    for loss_of in losses:
        loss_of(model).backward()
    optimizer.synchronize()
    return parameters_to_vector([each.grad for each in model.parameters()]), len(optimizer.sent)


def synchronized_first(model, optimizer):
    optimizer.synchronize()
    clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step(synchronized=True)


def clipped_in_between(model, optimizer):
    clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step()


def length_of_update(loss_of, how):
    """Returns how far one step of rate 1 goes: the norm of the gradient that it has taken."""
    model = net()
    before = flat(model)
    optimizer = DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), model.parameters(), threshold=0)
    loss_of(model).backward()
    how(model, optimizer)
    return (flat(model) - before).norm().item()


def horovod(rank, x, y, passes, thresholds):
    mine, whole = [part.chunk(rank.world_size)[rank.rank] for part in (x, y)], loss_on(x, y)
    ddp, loss_of = by_ddp(loss_on(*mine)), loss_on(*mine)
    messages, off = {}, {}
    for threshold in thresholds:
        weights, sent = by_horovod(loss_of, threshold)
        messages[str(threshold)], off[str(threshold)] = sent, (weights - ddp).abs().max().item()
    summed, count = gradient_of_passes(
        [loss_on(*part) for part in zip(*[each.chunk(passes) for each in mine], strict=True)]
    )
    model = net()
    mean = parameters_to_vector(torch.autograd.grad(whole(model), list(model.parameters())))
    ways = {"synchronized": synchronized_first, "in between": clipped_in_between}
    return {
        "messages": messages,
        "off": off,
        "times": (summed.norm() / mean.norm()).item(),
        "same direction": (summed / passes - mean).abs().max().item(),
        "messages of passes": count,
        "clipped": {name: length_of_update(loss_of, way) for name, way in ways.items()},
    }


def race(rank, x, y, rate, each):
    """Returns of rank 0, the server, how far behind each gradient was and the last loss."""
    workers = rank.world_size - 1
    if rank.rank:
        own = [part.chunk(workers)[rank.rank - 1] for part in (x, y)]
        return work(net(), loss_on(*own), each)
    behind, weights = serve(flat(net()), rate, workers, each)
    model = net()
    torch.nn.utils.vector_to_parameters(weights, model.parameters())
    return {"behind": behind, "loss": loss_on(x, y)(model).item()}


def measure(x, y, ranks, passes, thresholds, workers, each, rate, delays, updates, **of_tf):
    x, y = torch.tensor(x, dtype=torch.float64), torch.tensor(y, dtype=torch.float64)
    return {
        "horovod": on_ranks(horovod, ranks, x, y, passes, thresholds)[0],
        "race": {str(count): on_ranks(race, 1 + count, x, y, rate, each)[0] for count in workers},
        "delayed": {str(delay): train_with_delay(net(), loss_on(x, y), rate, delay, updates) for delay in delays},
        "first": loss_on(x, y)(net()).item(),
    }
