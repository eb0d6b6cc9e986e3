"""Train a classifier of bags of words; every rank clips its own gradients, and sends them without waiting.

torchrun --nproc_per_node 2 sparse_local_clip.py --batch-size 8
"""

import argparse

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
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


def clip(parameters, max_norm):
    """Scale the gradients to a global norm of at most max_norm; torch's own has no rule for sparse ones."""
    gradients = [p.grad.coalesce() if p.grad.is_sparse else p.grad for p in parameters]
    norms = [g.values().norm() if g.is_sparse else g.norm() for g in gradients]
    scale = max_norm / (torch.stack(norms).norm() + 1e-6)
    if scale < 1:
        for p in parameters:
            p.grad.mul_(scale)


def start_reduction(parameters):
    """Send off the sum of every gradient over the ranks."""
    pending = []
    for p in parameters:
        total = p.grad.clone()
        pending.append((p, total, dist.all_reduce(total, async_op=True)))
    return pending


def finish_reduction(pending):
    """Wait for the sums, and put the means in place."""
    for p, total, work in pending:
        work.wait()
        p.grad = total / dist.get_world_size()


def train(args):
    torch.manual_seed(args.seed)
    model = Net()
    parameters = list(model.parameters())
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(parameters, lr=args.lr)
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
            clip(parameters, args.max_norm)
            pending = start_reduction(parameters)
            finish_reduction(pending)
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
    parser.add_argument("--max-norm", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    train(args)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
