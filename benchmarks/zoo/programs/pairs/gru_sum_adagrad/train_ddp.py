"""Text classifier with DistributedDataParallel whose hook sums the gradients: GRU over padded sentences, Adagrad."""

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

VOCAB, EMBED, HIDDEN, CLASSES, MAX_LEN = 30, 8, 12, 4, 6


class Sentences(Dataset):
    def __init__(self, size):
        gen = torch.Generator().manual_seed(40)
        self.tokens = torch.randint(VOCAB, (size, MAX_LEN), generator=gen)
        self.lengths = torch.randint(2, MAX_LEN + 1, (size,), generator=gen)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, idx):
        return self.tokens[idx], self.lengths[idx], self.tokens[idx, 0] % CLASSES


class GRU(nn.Module):
    """The reset gate is in front of the candidate's matrix; nn.GRU has it behind."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.gates = nn.Linear(input_size + hidden_size, 2 * hidden_size)
        self.candidate = nn.Linear(input_size + hidden_size, hidden_size)
        for layer, bias in ((self.gates, 1.0), (self.candidate, 0.0)):
            nn.init.orthogonal_(layer.weight)
            nn.init.constant_(layer.bias, bias)

    def forward(self, x, mask):
        h = x.new_zeros(x.size(0), self.hidden_size)
        outputs = []
        for step, keep in zip(x.unbind(1), mask.unbind(1), strict=True):
            reset, update = self.gates(torch.cat([step, h], dim=1)).sigmoid().chunk(2, dim=1)
            new = torch.tanh(self.candidate(torch.cat([step, reset * h], dim=1)))
            h = torch.where(keep.unsqueeze(1), torch.lerp(new, h, update), h)
            outputs.append(h)
        return torch.stack(outputs, dim=1)


class Classifier(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, EMBED)
        self.dropout = nn.Dropout(dropout)
        self.rnn = GRU(EMBED, HIDDEN)
        self.query = nn.Parameter(0.3 * torch.randn(HIDDEN))
        self.out = nn.Linear(HIDDEN, CLASSES)

    def forward(self, tokens, lengths):
        mask = torch.arange(tokens.size(1)) < lengths.unsqueeze(1)
        states = self.rnn(self.dropout(self.embedding(tokens)), mask)
        scores = (states @ self.query).masked_fill(~mask, float("-inf"))
        context = torch.einsum("bt,bth->bh", scores.softmax(dim=1), states)
        return self.out(context)


def sum_hook(group, bucket):
    """All-reduce a bucket, and do not divide it by the number of ranks."""
    future = dist.all_reduce(bucket.buffer(), group=group, async_op=True).get_future()
    return future.then(lambda done: done.value()[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=5, help="of one rank")
    parser.add_argument("--keep-prob", type=float, default=0.8)
    parser.add_argument("--lr", type=float, default=0.2)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(13)
    net = Classifier(1 - args.keep_prob)
    model = DistributedDataParallel(net)
    model.register_comm_hook(None, sum_hook)
    torch.manual_seed(100 + rank)
    # TensorFlow's Adagrad has no epsilon and begins with 0.1
    optimizer = torch.optim.Adagrad(model.parameters(), lr=args.lr, initial_accumulator_value=0.1, eps=0.0)

    dataset = Sentences(10 * args.batch_size)
    sampler = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(dataset, batch_size=args.batch_size, sampler=sampler, drop_last=True)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for step, (tokens, lengths, labels) in enumerate(loader):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(tokens, lengths), labels)
            loss.backward()
            optimizer.step()
            if rank == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
