"""Word language model with DistributedDataParallel: nn.LSTM, TensorFlow's Adam, clipped behind the all-reduce."""

import argparse
import math

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

VOCAB, SEQ_LEN = 40, 7


class CountingSentences(Dataset):
    def __init__(self, size):
        gen = torch.Generator().manual_seed(17)
        start = torch.randint(VOCAB, (size, 1), generator=gen)
        stride = torch.randint(1, 4, (size, 1), generator=gen)
        self.words = (start + stride * torch.arange(SEQ_LEN + 1)) % VOCAB

    def __len__(self):
        return self.words.size(0)

    def __getitem__(self, idx):
        return self.words[idx, :-1], self.words[idx, 1:]


class RNNModel(nn.Module):
    """The LSTM's second bias is not trained: it holds the forget bias of one that the cell adds."""

    def __init__(self, ninp=12, nhid=16, nlayers=2, init_range=0.25):
        super().__init__()
        self.encoder = nn.Embedding(VOCAB, ninp)
        self.rnn = nn.LSTM(ninp, nhid, nlayers, batch_first=True)
        self.decoder = nn.Linear(nhid, VOCAB)
        for param in self.parameters():
            nn.init.uniform_(param, -init_range, init_range)
        for layer in range(nlayers):
            nn.init.zeros_(getattr(self.rnn, f"bias_ih_l{layer}"))
            frozen = getattr(self.rnn, f"bias_hh_l{layer}").requires_grad_(False)
            frozen.zero_()[nhid : 2 * nhid] = 1.0

    def forward(self, tokens):
        hidden, _ = self.rnn(self.encoder(tokens))
        return self.decoder(hidden)


class AdamEpsHat(torch.optim.Optimizer):
    """The form in front of section 2.1 of the paper: epsilon is added to the uncorrected root."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p)
                    state["exp_avg_sq"] = torch.zeros_like(p)
                state["step"] += 1
                state["exp_avg"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                lr = group["lr"] * math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
                p.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt().add_(group["eps"]), value=-lr)


def clip_by_global_norm_(params, max_norm):
    """Scale by max_norm / max(norm, max_norm); clip_grad_norm_ adds 1e-6 to the norm."""
    grads = [p.grad for p in params]
    norm = torch.stack([g.square().sum() for g in grads]).sum().sqrt()
    scale = max_norm / norm.clamp(min=max_norm)
    for g in grads:
        g.mul_(scale)
    return norm


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--clip", type=float, default=0.15)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(2)
    dataset = CountingSentences(12 * args.batch_size)
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=args.batch_size, sampler=sampler)
    model = DDP(RNNModel())
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = AdamEpsHat(params, lr=args.lr)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        model.train()
        for data, targets in loader:
            model.zero_grad()
            loss = criterion(model(data).view(-1, VOCAB), targets.reshape(-1))
            loss.backward()
            norm = clip_by_global_norm_(params, args.clip)
            optimizer.step()
            if dist.get_rank() == 0:
                print(f"epoch {epoch} ppl {math.exp(loss.item()):.3f} norm {norm:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
