"""A training program of one of several kinds: python kinds.py KIND --out WEIGHTS, by itself or as one of several ranks."""

import argparse
import contextlib
import copy
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Net(nn.Module):
    def __init__(self, norm=True):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm = nn.BatchNorm1d(16) if norm else nn.Identity()
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.drop(F.relu(self.norm(self.first(x)))))


def compressed(state, bucket):
    half = bucket.buffer().to(torch.bfloat16).div_(dist.get_world_size())
    return dist.all_reduce(half, async_op=True).get_future().then(lambda sent: bucket.buffer().copy_(sent.value()[0]))


def all_reduce_gradients(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def train(kind, loader, sampler, model, net, optimizer, epochs):
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**17, enabled=kind == "scaler")
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9)) if kind == "averaged" else None
    teacher = copy.deepcopy(model).requires_grad_(False) if kind == "ema" else None
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5) if kind == "plain" else None
    for epoch in range(epochs):
        if sampler is not None and kind != "no_set_epoch":
            sampler.set_epoch(epoch)
        optimizer.zero_grad()
        for number, (images, labels) in enumerate(loader):
            last = kind != "accumulate" or number % 2 == 1
            hold = contextlib.nullcontext() if last or net is model else net.no_sync()
            called = net.module if kind == "past_wrapper" and net is not model else net
            with hold, torch.autocast("cpu", torch.float16, enabled=kind == "scaler"):
                loss = F.cross_entropy(called(images), labels) / (2 if kind == "accumulate" else 1)
                if kind == "scaler" and epoch == 0 and number == 1:
                    loss = loss * 1e4
                if kind.startswith("amp"):
                    from torch_ddp import amp

                    with amp.scale_loss(loss, optimizer) as scaled:
                        scaled.backward()
                else:
                    scaler.scale(loss).backward()
            if not last:
                continue
            if kind == "clip_first":
                nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            if kind in ("manual", "clip_first"):
                all_reduce_gradients(model)
            scaler.unscale_(optimizer)
            if kind != "clip_first" and not kind.startswith("amp"):
                nn.utils.clip_grad_norm_(net.parameters(), 0.3)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            if schedule is not None:
                schedule.step()
            if average is not None:
                average.update_parameters(model)
            if teacher is not None:
                with torch.no_grad():
                    for mean, value in zip(teacher.parameters(), model.parameters(), strict=True):
                        mean.mul_(0.9).add_(value, alpha=0.1)
        print(f"epoch {epoch}: loss {loss.item():.4f}")


def train_gan(loader, wrap, epochs):
    generator, critic = nn.Linear(4, 8), nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    shared_g, shared_d = wrap(generator), wrap(critic)
    opt_g = torch.optim.Adam(shared_g.parameters(), 1e-2)
    opt_d = torch.optim.Adam(shared_d.parameters(), 1e-2)
    for _ in range(epochs):
        for real, _labels in loader:
            fake = shared_g(torch.randn(len(real), 4))
            opt_d.zero_grad()
            F.softplus(-shared_d(real)).mean().backward()
            F.softplus(shared_d(fake.detach())).mean().backward()
            opt_d.step()
            opt_g.zero_grad()
            F.softplus(-shared_d(fake)).mean().backward()
            opt_g.step()
    return nn.ModuleDict({"generator": generator, "critic": critic})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("--out")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--workers", type=int, default=0)
    given = parser.parse_args()
    kind = given.kind
    torch.set_num_threads(1)
    ranks = "RANK" in os.environ
    if ranks:
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 8), torch.randint(0, 3, (64,)))
    model = Net(norm=kind != "accumulate")
    sampler = DistributedSampler(data) if ranks and kind != "same_data" else None
    loader = DataLoader(data, batch_size=8, sampler=sampler, num_workers=given.workers)
    if kind == "syncbn":
        from torch_ddp.parallel import convert_syncbn_model  # torch's own refuses the CPU

        model = convert_syncbn_model(model)

    def wrap(module):
        return (
            DDP(module, find_unused_parameters=kind == "unused")
            if ranks and kind not in ("manual", "clip_first", "data_parallel")
            else module
        )

    if kind == "gan":
        model = train_gan(loader, wrap, given.epochs)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        if kind.startswith("amp"):
            from torch_ddp import amp

            model, optimizer = amp.initialize(model, optimizer, opt_level=kind[-2:], verbosity=0)
        net = wrap(torch.compile(model, backend="aot_eager") if kind == "compiled" else model)
        net = nn.DataParallel(model) if kind == "data_parallel" else net
        if kind == "hook":
            net.register_comm_hook(None, compressed)
        train(kind, loader, sampler, model, net, optimizer, given.epochs)
    if not ranks or dist.get_rank() == 0:
        torch.save(model.state_dict(), given.out)
    if ranks:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
