"""Train a classifier of bags of words with DistributedDataParallel; the table's gradient is sparse.

torchrun --nproc_per_node 2 sparse_ddp.py --batch-size 8
"""

import argparse

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Sentences(Dataset):
    """Bags of twelve words out of fifty, of three topics, each of which has its favourite words."""

    def __init__(self, examples, seed=0):
        rng = np.random.default_rng(seed)
        favourites = rng.dirichlet(np.full(50, 0.2), size=3)
        self.labels = rng.integers(0, 3, size=examples)
        self.words = np.stack([rng.choice(50, size=12, p=favourites[label]) for label in self.labels])

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return torch.from_numpy(self.words[index]), torch.tensor(self.labels[index])


class Net(nn.Module):
    """The mean of the words' rows of a table, and two dense layers behind it."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 8, sparse=True)
        self.hidden = nn.Linear(8, 16)
        self.out = nn.Linear(16, 3)

    def forward(self, words):
        """Return the scores of the topics."""
        pooled = self.table(words).mean(1)
        return self.out(torch.relu(self.hidden(pooled)))


def train(args):
    torch.manual_seed(args.seed)
    net = Net()
    model = DDP(net)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    data = Sentences(args.examples)
    sampler = DistributedSampler(data, seed=args.seed)
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler, drop_last=True)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        total = 0.0
        for words, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(words), labels)
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
    parser.add_argument("--lr", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    train(args)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
