"""LSTNet in torch: conv, GRU, skip GRU and an autoregressive highway."""

import torch
from torch import nn
from torch.nn import functional as F


class GRU(nn.Module):
    """The original GRU, which resets the state before the product with it; its candidate goes through ReLU. Returns the last state."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.gates = nn.Linear(input_size + hidden_size, 2 * hidden_size)
        self.candidate = nn.Linear(input_size + hidden_size, hidden_size)
        nn.init.ones_(self.gates.bias)

    def forward(self, x):
        h = x.new_zeros(x.size(0), self.hidden_size)
        for step in x.unbind(1):
            r, u = torch.sigmoid(self.gates(torch.cat([step, h], dim=1))).chunk(2, dim=1)
            c = F.relu(self.candidate(torch.cat([step, r * h], dim=1)))
            h = u * h + (1 - u) * c
        return h


class SkipGRU(nn.Module):
    """A GRU over what lies a period apart, for each phase of the period."""

    def __init__(self, input_size, hidden_size, skip, steps):
        super().__init__()
        self.skip, self.steps = skip, steps
        self.gru = GRU(input_size, hidden_size)

    def forward(self, c):
        batch, _, filters = c.shape
        s = c[:, -self.steps * self.skip:].reshape(batch, self.steps, self.skip, filters)
        s = s.transpose(1, 2).reshape(batch * self.skip, self.steps, filters)
        return self.gru(s).reshape(batch, -1)


class Highway(nn.Module):
    """One linear model of the last steps, which all series share."""

    def __init__(self, window):
        super().__init__()
        self.window = window
        self.linear = nn.Linear(window, 1)

    def forward(self, x):
        return self.linear(x[:, -self.window:].transpose(1, 2)).squeeze(-1)


class LSTNet(nn.Module):
    def __init__(self, series=6, window=24, kernel=5, filters=16, hidden=20, skip=4, skip_hidden=6, highway=8):
        super().__init__()
        self.conv = nn.Conv2d(1, filters, (kernel, series))
        self.gru = GRU(filters, hidden)
        self.skip_gru = SkipGRU(filters, skip_hidden, skip, (window - kernel) // skip)
        self.output = nn.Linear(hidden + skip * skip_hidden, series)
        self.highway = Highway(highway)

    def forward(self, x):
        c = F.relu(self.conv(x.unsqueeze(1))).squeeze(3).transpose(1, 2)
        r = self.gru(c)
        s = self.skip_gru(c)
        residual = self.output(torch.cat([r, s], dim=1))
        linear = self.highway(x)
        forecast = torch.sigmoid(residual + linear)
        return {"conv": c, "recurrent": r, "skip": s, "highway": linear, "forecast": forecast}


def loss(model, history, target, scale):
    out = model(history)
    return ((out["forecast"] - target).abs() * scale).sum(), out
