"""DataParallel's steps, one by one on the CPU, where torch's own class does not replicate; and DDP beside it."""

import copy
from concurrent.futures import ThreadPoolExecutor

import torch
from ranks import on_ranks
from torch.func import functional_call
from torch.nn.parallel import DistributedDataParallel

import torch_ddp


class Model(torch.nn.Module):
    """A linear layer, batch norm and tanh; counts its forward passes."""

    def __init__(self, weights, momentum):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor(weights, dtype=torch.float64))
        self.norm = torch.nn.BatchNorm1d(1, eps=1e-3, momentum=1 - momentum, dtype=torch.float64)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return torch.tanh(self.norm((x @ self.w)[:, None]))[:, 0]


def data_parallel(model, x, count):
    """Returns the outputs for the whole batch, and the replicas' weights."""
    pieces = x.chunk(count)  # scatter
    replicas = [replica(model, first=index == 0) for index in range(count)]  # replicate
    modules = [copy.deepcopy(model) for _ in replicas]  # one for each thread
    with ThreadPoolExecutor(count) as threads:  # apply, in threads
        outputs = list(threads.map(functional_call, modules, replicas, pieces))
    return torch.cat(outputs), replicas  # gather: the loss is computed in one place


def replica(model, first):
    """Returns copies of weights and statistics; the first replica is the model itself, on the first device."""
    if first:
        return {**dict(model.named_parameters()), **dict(model.named_buffers())}
    weights = {name: weight.clone() for name, weight in model.named_parameters()}  # gradients flow back and add up
    return {**weights, **{name: value.clone() for name, value in model.named_buffers()}}


def one_process(x, y, weights, count, momentum):
    model = Model(weights, momentum)
    copied = []
    for step in range(2):
        model.zero_grad()
        outputs, replicas = data_parallel(model, x, count)
        copied.append(sum(made["w"].nbytes for made in replicas[1:]))
        loss = (outputs - y).square().mean()
        if step == 0:
            by_replica = torch.autograd.grad(loss, [made["w"] for made in replicas], retain_graph=True)
            by_replica = [by_replica[0] - sum(by_replica[1:]), *by_replica[1:]]  # the first holds the others' too
            loss.backward()
            gradient, moving_mean = model.w.grad.tolist(), model.norm.running_mean.item()
    return {
        "by_replica": [each.tolist() for each in by_replica],
        "gradient": gradient,
        "moving_mean": moving_mean,
        "copied": copied,
        "weight_bytes": model.w.nbytes,
        "outputs_bytes": outputs.nbytes,
    }


def many_processes(rank, x, y, weights, momentum):
    piece = torch_ddp.shard({"x": x, "y": y}, rank.rank, rank.world_size)
    model = Model(weights, momentum)
    ddp = DistributedDataParallel(model)
    (ddp(piece["x"]) - piece["y"]).square().mean().backward()
    moving_mean, seen = model.norm.running_mean.item(), []
    model.norm.register_forward_pre_hook(lambda layer, inputs: seen.append(layer.running_mean.item()))
    ddp(piece["x"])
    return {"gradient": model.w.grad.tolist(), "moving_mean": moving_mean, "at_next_forward": seen[0]}


def measure(x, y, weights, count, momentum):
    x, y = torch.tensor(x, dtype=torch.float64), torch.tensor(y, dtype=torch.float64)
    ranks = on_ranks(many_processes, count, x, y, weights, momentum)
    plain = Model(weights, momentum)
    torch.nn.DataParallel(plain)(x)
    parallel = one_process(x, y, weights, count, momentum)
    return {"parallel": parallel, "ranks": ranks, "calls": plain.calls}
