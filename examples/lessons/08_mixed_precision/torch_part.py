"""The same in torch, and Apex's levels O0 to O3 as `torch_ddp.amp` has them."""

import math

import torch

from torch_ddp import amp

LEVELS = ("O0", "O1", "O2", "O3")


def rounded(values):
    found = torch.tensor(values, dtype=torch.float64).half().double().tolist()
    return [value if math.isfinite(value) else str(value) for value in found]


def gradients(inputs, factor, scale):
    w = torch.ones(len(inputs), dtype=torch.float16, requires_grad=True)
    loss = (w * torch.tensor(inputs, dtype=torch.float16)).float().sum() * torch.tensor(factor * scale)
    loss.backward()
    return (w.grad.float() / scale).tolist()


def many_updates(update, updates):
    half, master = torch.ones([], dtype=torch.float16), torch.ones([])
    for _ in range(updates):
        half += torch.tensor(update).half()
        master += update
    return {"half": half.item(), "master": master.half().item()}


class Scaled(torch.nn.Module):
    """Weights times inputs."""

    def __init__(self, size):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(size))

    def forward(self, x):
        return x * self.w


def dynamic(steep, steps):
    model = Scaled(4)
    model, optimizer = amp.initialize(model, torch.optim.SGD(model.parameters(), lr=0.125), opt_level="O2", verbosity=0)
    scales, skipped = [], []
    for _ in range(steps):
        scales.append(amp.state_dict()["loss_scaler0"]["loss_scale"])
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).sum(1).mean() * steep
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
        skipped.append(amp.step_was_skipped(optimizer))
    amp.deactivate()
    return {"scales": scales, "skipped": skipped}


def train(level, x, y, rate, steps):
    torch.manual_seed(0)
    model = torch.nn.Linear(x.shape[1], 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    model, optimizer = amp.initialize(model, optimizer, opt_level=level, verbosity=0)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (model(x)[:, 0].float() - y).square().mean()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
    masters = torch.cat([weight.detach().float().ravel() for weight in amp.master_params(optimizer)])
    found = {"loss": loss.item(), "dtype": str(model.weight.dtype), "weights": masters.tolist()}
    amp.deactivate()
    return found


def measure(probes, inputs, factor, scale, update, updates, steep, steps, x, y, rate, train_steps):
    x, y = torch.tensor(x), torch.tensor(y)
    return {
        "rounded": rounded(probes),
        "largest": torch.finfo(torch.float16).max,
        "smallest": torch.finfo(torch.float16).smallest_normal * torch.finfo(torch.float16).eps,
        "spacing": torch.finfo(torch.float16).eps,
        "gradients": {"plain": gradients(inputs, factor, 1.0), "scaled": gradients(inputs, factor, scale)},
        "weight": many_updates(update, updates),
        "dynamic": dynamic(steep, steps),
        "levels": {level: train(level, x, y, rate, train_steps) for level in LEVELS},
    }
