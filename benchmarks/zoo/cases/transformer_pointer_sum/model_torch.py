"""Pre-norm transformer with a pointer over the article; one embedding for article, summary and output."""

import math

import torch
from torch import nn
from torch.nn import functional as F


def sinusoids(length, dim):
    half = dim // 2
    rates = torch.exp(torch.arange(half, dtype=torch.float64) * (-math.log(10000.0) / (half - 1)))
    angles = torch.arange(length, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.query_proj = nn.Linear(dim, dim, bias=False)
        self.key_proj = nn.Linear(dim, dim, bias=False)
        self.value_proj = nn.Linear(dim, dim, bias=False)
        self.out_proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x, memory, blocked):
        """blocked is True where there is nothing to see; returns what is read and the weights."""
        q, k, v = (
            y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for y in (self.query_proj(x), self.key_proj(memory), self.value_proj(memory))
        )
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
        weights = scores.masked_fill(blocked, float("-inf")).softmax(-1)
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2)), weights


class FeedForward(nn.Sequential):
    def __init__(self, dim, hidden):
        super().__init__(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = FeedForward(dim, hidden)

    def forward(self, x, blocked):
        y = self.norm1(x)
        x = x + self.attn(y, y, blocked)[0]
        return x + self.mlp(self.norm2(x))


class DecoderLayer(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.self_attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.cross_attn = Attention(dim, heads)
        self.norm3 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = FeedForward(dim, hidden)

    def forward(self, x, memory, future, blocked):
        y = self.norm1(x)
        x = x + self.self_attn(y, y, future)[0]
        read, weights = self.cross_attn(self.norm2(x), memory, blocked)
        x = x + read
        return x + self.mlp(self.norm3(x)), weights


class PointerTransformer(nn.Module):
    def __init__(self, vocab=40, extra=3, dim=24, heads=2, hidden=48, unknown=2):
        super().__init__()
        self.vocab, self.extra, self.dim, self.unknown = vocab, extra, dim, unknown
        self.tokens = nn.Embedding(vocab, dim)
        nn.init.normal_(self.tokens.weight, std=dim**-0.5)
        self.encoder = EncoderLayer(dim, heads, hidden)
        self.encoder_norm = nn.LayerNorm(dim, eps=1e-6)
        self.decoder = DecoderLayer(dim, heads, hidden)
        self.decoder_norm = nn.LayerNorm(dim, eps=1e-6)
        self.switch = nn.Linear(3 * dim, 1)
        self.register_buffer("positions", sinusoids(12, dim), persistent=False)

    def embed(self, ids):
        ids = ids.masked_fill(ids >= self.vocab, self.unknown)
        x = self.tokens(ids) * math.sqrt(self.dim)
        x = x.masked_fill((ids == 0).unsqueeze(-1), 0.0)
        return x + self.positions[: ids.size(1)].to(x.dtype)

    def forward(self, article, inputs):
        length = inputs.size(1)
        blocked = (article == 0)[:, None, None, :]
        memory = self.encoder_norm(self.encoder(self.embed(article), blocked))

        future = torch.ones(length, length, dtype=torch.bool, device=inputs.device).triu(1)
        embedded = self.embed(inputs)
        decoded, weights = self.decoder(embedded, memory, future, blocked)
        decoded = self.decoder_norm(decoded)

        copy = weights.mean(1)
        context = copy @ memory
        p_gen = torch.sigmoid(self.switch(torch.cat([context, decoded, embedded], -1)))
        generate = F.softmax(decoded @ self.tokens.weight.t(), dim=-1)
        mixed = F.pad(p_gen * generate, (0, self.extra))
        index = article.unsqueeze(1).expand(-1, length, -1)
        mixed = mixed.scatter_add(2, index, (1 - p_gen) * copy)
        return memory, decoded, copy, p_gen, mixed


def loss(model, article, inputs, targets, weights):
    memory, decoded, copy, p_gen, mixed = model(article.long(), inputs.long())
    gold = mixed.gather(-1, targets.long().unsqueeze(-1)).squeeze(-1)
    losses = -torch.log(gold + 1e-10) * weights
    outputs = {"memory": memory, "decoded": decoded, "copy": copy, "p_gen": p_gen, "final_dist": mixed}
    return losses.sum() / 64.0, outputs


def noam(step, dim=24, warmup=2, factor=0.3):
    """The learning rate of the update after `step` updates."""
    n = step + 1
    return factor * dim**-0.5 * min(n**-0.5, n * warmup**-1.5)
