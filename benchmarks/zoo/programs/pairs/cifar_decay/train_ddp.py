"""Train a small CIFAR network with DistributedDataParallel: SGD, decayed rate, averages of the weights."""

import argparse
import copy

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class FakeCifar(Dataset):
    def __init__(self, size, seed=11):
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, 10, (size,), generator=generator)
        self.images = torch.randn(size, 3, 16, 16, generator=generator) + self.labels.view(-1, 1, 1, 1) / 5.0

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]


class CifarNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 5, padding=2)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.pool = nn.MaxPool2d(3, stride=2, ceil_mode=True)  # pads behind, as SAME does here
        self.norm = nn.LocalResponseNorm(9, alpha=0.001, beta=0.75, k=1.0)
        self.local3 = nn.Linear(16 * 4 * 4, 32)
        self.softmax_linear = nn.Linear(32, 10)
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.trunc_normal_(module.weight, std=0.05)
                nn.init.constant_(module.bias, 0.1)

    def forward(self, x):
        x = self.norm(self.pool(F.relu(self.conv1(x))))
        x = self.pool(self.norm(F.relu(self.conv2(x))))
        x = x.permute(0, 2, 3, 1).flatten(1)  # rows of local3 are in the order height, width, channel
        return self.softmax_linear(F.relu(self.local3(x)))


class WeightAverage:
    """Averages that begin with the initial weights and warm up: min(decay, (1 + n) / (10 + n))."""

    def __init__(self, model, decay):
        self.shadow = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model, num_updates):
        decay = min(self.decay, (1 + num_updates) / (10 + num_updates))
        for average, param in zip(self.shadow.parameters(), model.parameters(), strict=True):
            average.lerp_(param, 1 - decay)


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8, help="per process")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--decay-steps", type=int, default=4)
    parser.add_argument("--decay-factor", type=float, default=0.5)
    parser.add_argument("--ema", type=float, default=0.99)
    return parser.parse_args()


def main():
    args = parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)

    dataset = FakeCifar(160)
    sampler = DistributedSampler(dataset, shuffle=True, seed=3)
    loader = DataLoader(dataset, batch_size=args.batch_size, sampler=sampler, drop_last=True)
    net = CifarNet()
    average = WeightAverage(net, args.ema)
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, args.decay_factor ** (1 / args.decay_steps))

    step, epoch = 0, 0
    model.train()
    while step < args.steps:
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            scheduler.step()
            step += 1
            average.update(net, step)
            if rank == 0:
                print(f"step {step}, loss = {loss.item():.4f}", flush=True)
            if step == args.steps:
                break
        epoch += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
