import math

import torch
from torch import nn
from torch.nn import functional as F

PAST = 12
SHOPS, DAYS = 6, 7
QUANTILES = (0.1, 0.5, 0.9)
DECAY_STEPS, FLOOR = 10, 0.05


class GatedAddNorm(nn.Module):
    def __init__(self, dim, out):
        super().__init__()
        self.fc = nn.Linear(dim, 2 * out)
        self.norm = nn.LayerNorm(out, eps=1e-3)

    def forward(self, x, residual):
        return self.norm(F.glu(self.fc(x), dim=-1) + residual)


class GRN(nn.Module):
    def __init__(self, dim, hidden, out=None, context=False):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.context = nn.Linear(hidden, hidden, bias=False) if context else None
        self.fc2 = nn.Linear(hidden, hidden)
        self.residual = nn.Identity() if out is None else nn.Linear(dim, out)
        self.gate = GatedAddNorm(hidden, out or hidden)

    def forward(self, x, context=None):
        h = self.fc1(x)
        if self.context is not None:
            h = h + self.context(context)
        h = self.fc2(F.elu(h))
        return self.gate(h, self.residual(x))


class VariableSelection(nn.Module):
    """A mixture of the embedded variables [..., variables, hidden], each through a network of its own."""

    def __init__(self, variables, hidden, context=False):
        super().__init__()
        self.weights = GRN(variables * hidden, hidden, out=variables, context=context)
        self.variables = nn.ModuleList(GRN(hidden, hidden) for _ in range(variables))

    def forward(self, x, context=None):
        weights = self.weights(x.flatten(-2), context).softmax(dim=-1)
        transformed = torch.stack([net(v) for net, v in zip(self.variables, x.unbind(-2))], dim=-2)
        return (weights.unsqueeze(-1) * transformed).sum(-2)


class InterpretableAttention(nn.Module):
    """Heads share their values and are averaged."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.head_dim = heads, dim // heads
        self.query = nn.Linear(dim, dim, bias=False)
        self.key = nn.Linear(dim, dim, bias=False)
        self.value = nn.Linear(dim, self.head_dim, bias=False)
        self.out = nn.Linear(self.head_dim, dim, bias=False)

    def split(self, x):
        return x.unflatten(-1, (self.heads, self.head_dim)).transpose(1, 2)

    def forward(self, x):
        query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.value(x)
        scores = query @ key.transpose(-1, -2) / math.sqrt(self.head_dim)
        future = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        return self.out((weights @ value.unsqueeze(1)).mean(1)), weights


def lstm(dim):
    """An LSTM with one trained bias; the second one is the constant 1 of the forget gate."""
    layer = nn.LSTM(dim, dim, batch_first=True)
    layer.bias_hh_l0.requires_grad_(False)
    nn.init.zeros_(layer.bias_hh_l0)
    nn.init.ones_(layer.bias_hh_l0[dim:2 * dim])
    return layer


class Model(nn.Module):
    def __init__(self, dim=10, heads=2):
        super().__init__()
        self.embed_shop = nn.Embedding(SHOPS, dim)
        self.embed_size = nn.Linear(1, dim)
        self.embed_day = nn.Embedding(DAYS, dim)
        self.embed_promotion = nn.Linear(1, dim)
        self.embed_weather = nn.Linear(1, dim)
        self.embed_sales = nn.Linear(1, dim)
        self.select_static = VariableSelection(2, dim)
        self.select_past = VariableSelection(4, dim, context=True)
        self.select_future = VariableSelection(2, dim, context=True)
        self.context_selection = GRN(dim, dim)
        self.context_enrichment = GRN(dim, dim)
        self.context_hidden = GRN(dim, dim)
        self.context_cell = GRN(dim, dim)
        self.encoder = lstm(dim)
        self.decoder = lstm(dim)
        self.lstm_gate = GatedAddNorm(dim, dim)
        self.enrichment = GRN(dim, dim, context=True)
        self.attention = InterpretableAttention(dim, heads)
        self.attention_gate = GatedAddNorm(dim, dim)
        self.position_wise = GRN(dim, dim)
        self.final_gate = GatedAddNorm(dim, dim)
        self.quantiles = nn.Linear(dim, len(QUANTILES))

    def forward(self, shop, size, day, promotion, weather, history):
        day, promotion = self.embed_day(day), self.embed_promotion(promotion.unsqueeze(-1))
        weather, history = self.embed_weather(weather.unsqueeze(-1)), self.embed_sales(history.unsqueeze(-1))
        static = self.select_static(torch.stack([self.embed_size(size), self.embed_shop(shop)], dim=1))

        context = self.context_selection(static).unsqueeze(1)
        past = torch.stack([weather, promotion[:, :PAST], day[:, :PAST], history], dim=2)
        past = self.select_past(past, context)
        future = self.select_future(torch.stack([promotion[:, PAST:], day[:, PAST:]], dim=2), context)

        state = self.context_hidden(static).unsqueeze(0), self.context_cell(static).unsqueeze(0)
        encoded, state = self.encoder(past, state)
        decoded, _ = self.decoder(future, state)
        temporal = self.lstm_gate(torch.cat([encoded, decoded], dim=1), torch.cat([past, future], dim=1))

        enriched = self.enrichment(temporal, self.context_enrichment(static).unsqueeze(1))
        attended, weights = self.attention(enriched)
        x = self.position_wise(self.attention_gate(attended, enriched))
        x = self.final_gate(x, temporal)
        return self.quantiles(x[:, PAST:]), weights


def loss(model, shop, size, day, promotion, weather, history, sales):
    predictions, weights = model(shop.long(), size, day.long(), promotion, weather, history)
    quantiles = predictions.new_tensor(QUANTILES)
    error = sales.unsqueeze(-1) - predictions
    pinball = torch.maximum(quantiles * error, (quantiles - 1) * error)
    value = pinball.sum(-1).mean()
    risk = 2 * pinball[..., 1].sum() / sales.abs().sum()
    return value, {"predictions": predictions, "attention": weights, "p50_risk": risk}


def scheduler(optimizer):
    def factor(step):
        cosine = (1 + math.cos(math.pi * min(step, DECAY_STEPS) / DECAY_STEPS)) / 2
        return FLOOR + (1 - FLOOR) * cosine

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
