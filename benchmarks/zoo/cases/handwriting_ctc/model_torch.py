"""Handwriting recognition: three convolutions over [columns, rows], a bidirectional GRU over columns, framewise loss.

nn.GRU resets the product with the state; this one resets the state, as the first formulation of the GRU does."""

import torch
from torch import nn
from torch.nn import functional as F


class GRUCell(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.gates = nn.Linear(input_size + hidden_size, 2 * hidden_size)
        self.new = nn.Linear(input_size + hidden_size, hidden_size)
        nn.init.ones_(self.gates.bias)

    def forward(self, x, h):
        reset, update = torch.sigmoid(self.gates(torch.cat([x, h], dim=1))).chunk(2, dim=1)
        new = torch.tanh(self.new(torch.cat([x, reset * h], dim=1)))
        return update * h + (1 - update) * new


class BidirectionalGRU(nn.Module):
    """Reads [batch, time, features] in both directions, each within the lengths; outputs behind them are zero."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.forward_cell = GRUCell(input_size, hidden_size)
        self.backward_cell = GRUCell(input_size, hidden_size)

    def run(self, cell, x, lengths, steps):
        h = x.new_zeros(x.size(0), cell.hidden_size)
        outputs = [None] * x.size(1)
        for t in steps:
            inside = (t < lengths).unsqueeze(1)
            h = torch.where(inside, cell(x[:, t], h), h)
            outputs[t] = h * inside
        return torch.stack(outputs, dim=1)

    def forward(self, x, lengths):
        steps = range(x.size(1))
        ahead = self.run(self.forward_cell, x, lengths, steps)
        back = self.run(self.backward_cell, x, lengths, reversed(steps))
        return torch.cat([ahead, back], dim=2)


class Model(nn.Module):
    def __init__(self, num_classes=9, hidden_size=16):
        super().__init__()
        self.cnn = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d((2, 2)),
            nn.Conv2d(6, 10, 3, padding=1), nn.ReLU(), nn.MaxPool2d((1, 2)),
            nn.Conv2d(10, 14, 3, padding=1), nn.ReLU(), nn.MaxPool2d((1, 3)),
        )
        self.rnn = BidirectionalGRU(14, hidden_size)
        self.fc = nn.Linear(2 * hidden_size, num_classes)

    def forward(self, images, lengths):
        features = self.cnn(images.unsqueeze(1))
        sequence = self.rnn(features.squeeze(3).transpose(1, 2), lengths)
        return {"cnn_out": features, "rnn_out": sequence, "logits": self.fc(sequence)}


def loss(model, images, labels, lengths):
    out = model(images, lengths)
    logits = out["logits"]
    mask = torch.arange(logits.size(1), device=logits.device) < lengths.unsqueeze(1)
    losses = F.cross_entropy(logits.transpose(1, 2), labels.long(), reduction="none")
    return (losses * mask).sum() / mask.sum(), out


class RMSprop(torch.optim.Optimizer):
    """RMSProp as the original trains with: epsilon in the root, mean squares from one, momentum of what is subtracted."""

    def __init__(self, params, lr, decay=0.9, momentum=0.0, eps=1e-10):
        super().__init__(params, dict(lr=lr, decay=decay, momentum=momentum, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["square_avg"] = torch.ones_like(p)
                    state["momentum_buffer"] = torch.zeros_like(p)
                square_avg, buf = state["square_avg"], state["momentum_buffer"]
                square_avg.mul_(group["decay"]).addcmul_(p.grad, p.grad, value=1 - group["decay"])
                scaled = p.grad / (square_avg + group["eps"]).sqrt()
                buf.mul_(group["momentum"]).add_(scaled, alpha=group["lr"])
                p.sub_(buf)


def optimizer(model):
    return RMSprop(model.parameters(), lr=0.0625, decay=0.9, momentum=0.5, eps=1.0)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.75)
