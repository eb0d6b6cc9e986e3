"""Train a small classifier of images with DistributedDataParallel.

torchrun --nproc_per_node 2 dense_ddp.py --batch-size 8
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Patterns(Dataset):
    """Noisy pictures of four patterns, each of 1 x 8 x 8."""

    def __init__(self, examples, seed=0):
        generator = torch.Generator().manual_seed(seed)
        patterns = torch.randn(4, 1, 8, 8, generator=generator)
        self.labels = torch.randint(0, 4, (examples,), generator=generator)
        self.images = patterns[self.labels] + torch.randn(examples, 1, 8, 8, generator=generator)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]


class Net(nn.Module):
    """A convolution and two dense layers."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 3, padding=1)
        self.fc1 = nn.Linear(6 * 4 * 4, 16)
        self.fc2 = nn.Linear(16, 4)

    def forward(self, x):
        """Return the logits of the images x."""
        x = nn.functional.max_pool2d(torch.relu(self.conv(x)), 2)
        x = torch.relu(self.fc1(x.flatten(1)))
        return self.fc2(x)


def train(args):
    torch.manual_seed(args.seed)
    model = DDP(Net())
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    data = Patterns(args.examples)
    sampler = DistributedSampler(data, seed=args.seed)
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler, drop_last=True)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        total = 0.0
        for images, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {total / len(loader):.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8, help="examples of a rank in a step")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--examples", type=int, default=80)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    train(args)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
