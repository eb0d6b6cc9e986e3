"""Residual network with DistributedDataParallel: momentum, L2 loss, batch norm as TensorFlow keeps it."""

import argparse
import os

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class BatchNorm(nn.BatchNorm2d):
    """Keeps the biased variance of the batch; nn.BatchNorm2d keeps the unbiased one."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        var, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
        with torch.no_grad():
            self.running_mean += self.momentum * (mean - self.running_mean)
            self.running_var += self.momentum * (var - self.running_var)
            self.num_batches_tracked += 1
        return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)


class SameConv(nn.Conv2d):
    """3x3 with stride 2 as SAME pads even sizes: nothing in front, one row and column behind."""

    def forward(self, x):
        return super().forward(F.pad(x, (0, 1, 0, 1)))


def norm(channels):
    return BatchNorm(channels, eps=1e-3, momentum=0.1)


class BasicBlock(nn.Module):
    def __init__(self, inplanes, planes, stride=1):
        super().__init__()
        first = SameConv if stride == 2 else nn.Conv2d
        self.conv1 = first(inplanes, planes, 3, stride=stride, padding=0 if stride == 2 else 1, bias=False)
        self.bn1 = norm(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = norm(planes)
        self.downsample = nn.Identity()
        if stride != 1:
            conv = nn.Conv2d(inplanes, planes, 1, stride=stride, bias=False)
            self.downsample = nn.Sequential(conv, norm(planes))

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.downsample(x))


class ResNet(nn.Module):
    def __init__(self, num_classes=5):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn1 = norm(8)
        self.layer1 = BasicBlock(8, 8)
        self.layer2 = BasicBlock(8, 16, stride=2)
        self.fc = nn.Linear(16, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.layer2(self.layer1(F.relu(self.bn1(self.conv1(x)))))
        return self.fc(x.mean(dim=(2, 3)))


def l2_loss(model):
    """Of everything but the scales and shifts of the batch norms; the bias of fc is among it."""
    skip = {id(p) for m in model.modules() if isinstance(m, BatchNorm) for p in m.parameters()}
    return sum(p.square().sum() for p in model.parameters() if id(p) not in skip) / 2


def fake_data(size, classes=5):
    rng = np.random.RandomState(5)
    labels = rng.randint(0, classes, size)
    images = 1.5 * rng.randn(size, 3, 12, 12) + labels[:, None, None, None] - 2.0
    return TensorDataset(torch.from_numpy(images.astype(np.float32)), torch.from_numpy(labels))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-b", "--batch-size", default=6, type=int, help="of one process")
    parser.add_argument("--epochs", default=2, type=int)
    parser.add_argument("--weight-decay", default=5e-4, type=float)
    args = parser.parse_args()

    dist.init_process_group(backend="gloo")
    rank = int(os.environ["RANK"])
    torch.manual_seed(7)
    train_set = fake_data(10 * args.batch_size)
    sampler = DistributedSampler(train_set)
    loader = DataLoader(train_set, args.batch_size, sampler=sampler, drop_last=True, num_workers=0)

    model = DDP(ResNet())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    # piecewise_constant keeps a value up to and including its boundary: 4 and 7 there are 5 and 8 here
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[5, 8], gamma=0.1)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        model.train()
        for i, (images, target) in enumerate(loader):
            loss = F.cross_entropy(model(images), target) + args.weight_decay * l2_loss(model.module)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            scheduler.step()
            if rank == 0:
                print(f"Epoch {epoch} [{i}/{len(loader)}] loss {loss.item():.5f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
