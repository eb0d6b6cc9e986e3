"""AWD-LSTM without weight dropping; the masks of locked dropout come with the batch."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


class LSTM(nn.Module):
    def __init__(self, input_size, hidden_size, forget_bias=1.0):
        super().__init__()
        self.hidden_size = hidden_size
        self.forget_bias = forget_bias
        self.gates = nn.Linear(input_size + hidden_size, 4 * hidden_size)

    def forward(self, x):
        h = c = x.new_zeros(x.size(0), self.hidden_size)
        outputs = []
        for x_t in x.unbind(1):
            i, g, f, o = self.gates(torch.cat([x_t, h], dim=1)).chunk(4, dim=1)
            c = torch.sigmoid(f + self.forget_bias) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outputs.append(h)
        return torch.stack(outputs, dim=1)


class Model(nn.Module):
    def __init__(self, vocab_size=80, embed_dim=18, hidden_size=26):
        super().__init__()
        self.encoder = nn.Embedding(vocab_size, embed_dim)
        self.rnns = nn.ModuleList([LSTM(embed_dim, hidden_size), LSTM(hidden_size, embed_dim)])
        self.decoder = nn.Linear(embed_dim, vocab_size)
        self.decoder.weight = self.encoder.weight

    def forward(self, tokens, mask_input, mask_hidden, mask_output):
        x = self.encoder(tokens) * mask_input
        x = self.rnns[0](x) * mask_hidden
        raw = self.rnns[1](x)
        dropped = raw * mask_output
        return raw, dropped, self.decoder(dropped)


def loss(model, tokens, targets, mask_input, mask_hidden, mask_output, alpha=2.0, beta=1.0):
    raw, dropped, logits = model(tokens.long(), mask_input, mask_hidden, mask_output)
    nll = F.cross_entropy(logits.flatten(0, 1), targets.long().flatten(), reduction="sum") / tokens.size(0)
    ar = alpha * dropped.pow(2).mean()
    tar = beta * (raw[:, 1:] - raw[:, :-1]).pow(2).mean()
    return nll + ar + tar, {"raw": raw, "logits": logits}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=1.0)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)


def sum_over_ranks(parameters):
    for p in parameters:
        dist.all_reduce(p.grad)


def clip_by_global_norm(parameters, limit):
    norm = torch.sqrt(sum(p.grad.pow(2).sum() for p in parameters))
    for p in parameters:
        p.grad.mul_(limit / norm.clamp(min=limit))


def step(model, optimizer, scheduler, **inputs):
    parameters = list(model.parameters())
    optimizer.zero_grad()
    # the towers' gradients are summed, where DistributedDataParallel would average them
    with model.no_sync():
        total, outputs = loss(model, **inputs)
        total.backward()
    sum_over_ranks(parameters)
    clip_by_global_norm(parameters, 0.25)
    optimizer.step()
    scheduler.step()
    return total, outputs
