import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out")
    p.add_argument("--epochs", type=int, default=2)
    a = p.parse_args()
    torch.set_num_threads(1)
    ddp = "RANK" in os.environ
    if ddp:
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    x = torch.randn(64, 8)
    y = torch.randint(0, 3, (64,))
    ds = TensorDataset(x, y)
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    sampler = DistributedSampler(ds) if ddp else None
    loader = DataLoader(ds, batch_size=8, sampler=sampler, num_workers=0)
    net = DDP(model) if ddp else model
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(a.epochs):
        if sampler:
            sampler.set_epoch(epoch)
        for images, labels in loader:
            opt.zero_grad()
            loss = F.cross_entropy(net(images), labels)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
        print("epoch", epoch, loss.item())
    if not ddp or dist.get_rank() == 0:
        torch.save(model.state_dict(), a.out)
    if ddp:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
