"""QRNN and SRU language model, time first as recurrent code in torch usually is."""

import torch
from torch import nn
from torch.nn import functional as F

AR, TAR, MAX_NORM = 2.0, 1.0, 0.25


class QRNN(nn.Module):
    def __init__(self, size, window=2):
        super().__init__()
        self.conv = nn.Conv1d(size, 3 * size, window)
        self.window = window
        self.first_cell = nn.Parameter(torch.zeros(size))

    def forward(self, x, keep):
        padded = F.pad(x.permute(1, 2, 0), (self.window - 1, 0))
        z, f, o = self.conv(padded).permute(2, 0, 1).chunk(3, dim=-1)
        z, f, o = torch.tanh(z), torch.sigmoid(f) * keep.unsqueeze(-1), torch.sigmoid(o)
        cell = self.first_cell.expand(x.size(1), -1)
        cells = []
        for z_t, f_t in zip(z, f):
            cell = f_t * cell + (1 - f_t) * z_t
            cells.append(cell)
        return o * torch.stack(cells)


class SRU(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.project = nn.Linear(size, 3 * size, bias=False)
        self.forget_bias = nn.Parameter(torch.ones(size))
        self.reset_bias = nn.Parameter(torch.zeros(size))

    def forward(self, x, keep):
        candidate, forget, reset = self.project(x).chunk(3, dim=-1)
        forget = torch.sigmoid(forget + self.forget_bias) * keep.unsqueeze(-1)
        reset = torch.sigmoid(reset + self.reset_bias)
        state = torch.zeros_like(x[0])
        states = []
        for c_t, f_t in zip(candidate, forget):
            state = f_t * state + (1 - f_t) * c_t
            states.append(state)
        states = torch.stack(states)
        return reset * torch.tanh(states) + (1 - reset) * x


class QuasiRecurrentLM(nn.Module):
    def __init__(self, vocab=48, size=20):
        super().__init__()
        self.embed = nn.Embedding(vocab, size)
        self.qrnn = QRNN(size)
        self.sru = SRU(size)
        self.decoder = nn.Linear(size, vocab)
        self.decoder.weight = self.embed.weight

    def forward(self, tokens, starts):
        keep = 1 - starts
        low = self.qrnn(self.embed(tokens), keep)
        high = self.sru(low, keep)
        return low, high, self.decoder(high)


def loss(model, inputs, targets, starts, weights):
    low, high, logits = model(inputs.long().t(), starts.t())
    xent = F.cross_entropy(logits.flatten(0, 1), targets.long().t().reshape(-1), reduction="none")
    nll = (xent * weights.t().reshape(-1)).sum() / inputs.size(0)
    total = nll + AR * high.pow(2).mean() + TAR * (high[1:] - high[:-1]).pow(2).mean()
    batch_first = {"qrnn": low.transpose(0, 1), "sru": high.transpose(0, 1), "logits": logits.transpose(0, 1)}
    return total, {**batch_first, "nll": nll}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.5)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.8)


@torch.no_grad()
def clip_gradients(parameters, max_norm):
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack([g.norm() for g in grads]))
    factor = max_norm / norm.clamp(min=max_norm)
    for g in grads:
        g.mul_(factor)


def step(model, optimizer, scheduler, inputs, targets, starts, weights):
    optimizer.zero_grad()
    total, outputs = loss(model, inputs, targets, starts, weights)
    total.backward()
    clip_gradients(model.parameters(), MAX_NORM)
    optimizer.step()
    scheduler.step()
    return total, outputs
