"""Quantile forecasts from a temporal convolutional network."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

QUANTILES = (0.1, 0.5, 0.9)


class Chomp1d(nn.Module):
    """Takes off what a convolution that is padded on both sides has seen of the future."""

    def __init__(self, chomp_size):
        super().__init__()
        self.chomp_size = chomp_size

    def forward(self, x):
        return x[:, :, :-self.chomp_size].contiguous()


class TemporalBlock(nn.Module):
    def __init__(self, n_inputs, n_outputs, kernel_size, dilation):
        super().__init__()
        padding = (kernel_size - 1) * dilation
        self.conv1 = weight_norm(nn.Conv1d(n_inputs, n_outputs, kernel_size, padding=padding, dilation=dilation))
        self.chomp1 = Chomp1d(padding)
        self.relu1 = nn.ReLU()
        self.conv2 = weight_norm(nn.Conv1d(n_outputs, n_outputs, kernel_size, padding=padding, dilation=dilation))
        self.chomp2 = Chomp1d(padding)
        self.relu2 = nn.ReLU()
        self.downsample = nn.Conv1d(n_inputs, n_outputs, 1) if n_inputs != n_outputs else None

    def forward(self, x):
        out = self.relu1(self.chomp1(self.conv1(x)))
        out = self.relu2(self.chomp2(self.conv2(out)))
        res = x if self.downsample is None else self.downsample(x)
        return F.relu(out + res)


class Decoder(nn.Module):
    """Contexts for each day ahead and one for all of them; the same local network reads them day by day."""

    def __init__(self, in_features, known, horizon=6, context=8, hidden=16):
        super().__init__()
        self.horizon = horizon
        self.global_mlp = nn.Linear(in_features, (horizon + 1) * context)
        self.local_mlp = nn.Linear(2 * context + known, hidden)
        self.proj = nn.Linear(hidden, len(QUANTILES))

    def forward(self, features, future):
        contexts = F.relu(self.global_mlp(features)).unflatten(1, (self.horizon + 1, -1))
        specific, agnostic = contexts[:, :-1], contexts[:, -1:].expand(-1, self.horizon, -1)
        hidden = F.relu(self.local_mlp(torch.cat([specific, agnostic, future], dim=-1)))
        return self.proj(hidden)


class Model(nn.Module):
    def __init__(self, stores=7, embedding=4, observed=3, known=2, channels=(12, 16, 16), kernel_size=3):
        super().__init__()
        self.store_embedding = nn.Embedding(stores, embedding)
        widths = [observed + embedding, *channels]
        self.blocks = nn.ModuleList(
            TemporalBlock(widths[i], widths[i + 1], kernel_size, dilation=2 ** i) for i in range(len(channels))
        )
        self.decoder = Decoder(channels[-1], known)

    def forward(self, history, future, store):
        embedded = self.store_embedding(store)[:, :, None].expand(-1, -1, history.size(1))
        x = torch.cat([history.transpose(1, 2), embedded], dim=1)
        outputs = {}
        for i, block in enumerate(self.blocks):
            x = block(x)
            outputs[f"block_{i}"] = x
        raw = self.decoder(x[:, :, -1], future)
        increments = torch.cat([raw[..., :1], F.softplus(raw[..., 1:])], dim=-1)
        outputs["forecast"] = increments.cumsum(dim=-1)
        return outputs


def pinball_loss(forecast, targets):
    quantiles = forecast.new_tensor(QUANTILES)
    error = targets.unsqueeze(-1) - forecast
    return torch.maximum(quantiles * error, (quantiles - 1) * error).sum(-1)


def loss(model, history, future, store, targets, observed):
    outputs = model(history, future, store.long())
    losses = pinball_loss(outputs["forecast"], targets)
    return (losses * observed).sum() / observed.sum(), outputs


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)


def rate(step):
    return 0.05 * 0.9 ** (step / 2)
