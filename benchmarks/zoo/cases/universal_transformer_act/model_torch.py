import math

import torch
import torch.nn.functional as F
from torch import nn

SMOOTHING = 0.1
PONDER_COST = 0.05


def sinusoids(count, dim, longest=1e4):
    rates = torch.exp(torch.arange(dim // 2, dtype=torch.float64) * (-math.log(longest) / (dim // 2 - 1)))
    angles = torch.arange(count, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class Layer(nn.Module):
    """Self-attention and a feed-forward net, both behind a norm and beside a shortcut."""

    def __init__(self, dim, hidden, heads):
        super().__init__()
        self.attention_norm = nn.LayerNorm(dim, eps=1e-6)
        self.attention = nn.MultiheadAttention(dim, heads, bias=False, batch_first=True)
        self.feed_forward_norm = nn.LayerNorm(dim, eps=1e-6)
        self.feed_forward = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))

    def forward(self, x, padding):
        h = self.attention_norm(x)
        h, _ = self.attention(h, h, h, key_padding_mask=padding, need_weights=False)
        x = x + h
        return x + self.feed_forward(self.feed_forward_norm(x))


class UniversalEncoder(nn.Module):
    """One layer, applied to every position until the position halts."""

    def __init__(self, dim, hidden, heads, max_steps=4, epsilon=0.01, max_length=32):
        super().__init__()
        self.max_steps, self.threshold = max_steps, 1 - epsilon
        self.layer = Layer(dim, hidden, heads)
        self.halt = nn.Linear(dim, 1)
        nn.init.constant_(self.halt.bias, -0.3)
        self.register_buffer("position", sinusoids(max_length, dim), persistent=False)
        self.register_buffer("time", sinusoids(max_steps, dim), persistent=False)

    def forward(self, x, padding):
        halting = x.new_zeros(x.shape[:2])
        remainder, updates = torch.zeros_like(halting), torch.zeros_like(halting)
        output = torch.zeros_like(x)
        for step in range(self.max_steps):
            x = x + (self.position[:x.size(1)] + self.time[step]).to(x.dtype)
            p = torch.sigmoid(self.halt(x)).squeeze(-1)
            running = halting < 1
            last = running & (halting + p > self.threshold)
            going = running & ~last
            halting = halting + p * going
            remainder = remainder + (1 - halting) * last
            halting = halting + remainder * last
            updates = updates + running
            weight = p * going + remainder * last
            x = self.layer(x, padding)
            output = output + weight.unsqueeze(-1) * x
            if not ((halting < self.threshold) & (updates < self.max_steps)).any():
                break
        return output, updates, remainder


class Model(nn.Module):
    def __init__(self, symbols=18, dim=16, hidden=28, heads=2):
        super().__init__()
        self.embedding = nn.Embedding(symbols, dim)
        nn.init.normal_(self.embedding.weight, std=dim ** -0.5)
        self.encoder = UniversalEncoder(dim, hidden, heads)
        self.norm = nn.LayerNorm(dim, eps=1e-6)

    def forward(self, inputs):
        padding = inputs == 0
        x = self.embedding(inputs) * math.sqrt(self.embedding.embedding_dim)
        x = x.masked_fill(padding.unsqueeze(-1), 0)
        x, updates, remainder = self.encoder(x, padding)
        x = self.norm(x)
        return x, F.linear(x, self.embedding.weight), updates, remainder


def smoothed_cross_entropy(logits, targets, weights):
    """What is taken from the target goes to the others only; 0 where the prediction is as smooth as the target."""
    symbols = logits.size(-1)
    rest = SMOOTHING / (symbols - 1)
    least = -((1 - SMOOTHING) * math.log(1 - SMOOTHING) + SMOOTHING * math.log(rest))
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none", label_smoothing=rest * symbols)
    return ((losses - least) * weights.flatten()).sum() / weights.sum()


def loss(model, inputs, targets, weights):
    encoded, logits, updates, remainder = model(inputs.long())
    ponder = PONDER_COST * (updates + remainder).mean()
    value = smoothed_cross_entropy(logits, targets.long(), weights) + ponder
    return value, {"encoded": encoded, "logits": logits, "act_loss": ponder, "ponder_times": updates.mean()}
