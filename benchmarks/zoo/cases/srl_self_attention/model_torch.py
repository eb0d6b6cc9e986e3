import math

import torch
from torch import nn
from torch.nn import functional as F


class MultiHeadAttention(nn.Module):
    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv_transform = nn.Linear(hidden_size, 3 * hidden_size)
        self.o_transform = nn.Linear(hidden_size, hidden_size)

    def split_heads(self, x):
        b, t, _ = x.shape
        return x.reshape(b, t, self.num_heads, -1).transpose(1, 2)

    def forward(self, x, bias):
        q, k, v = map(self.split_heads, self.qkv_transform(x).chunk(3, dim=-1))
        logits = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.size(-1))
        weights = torch.softmax(logits + bias, dim=-1)
        heads = torch.matmul(weights, v).transpose(1, 2).flatten(2)
        return self.o_transform(heads)


class FeedForward(nn.Module):
    def __init__(self, hidden_size, filter_size):
        super().__init__()
        self.input_transform = nn.Linear(hidden_size, filter_size)
        self.output_transform = nn.Linear(filter_size, hidden_size)

    def forward(self, x):
        return self.output_transform(F.relu(self.input_transform(x)))


class AttentionSubLayer(nn.Module):
    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.attention = MultiHeadAttention(hidden_size, num_heads)
        self.layer_norm = nn.LayerNorm(hidden_size, eps=1e-6)

    def forward(self, x, bias):
        return self.layer_norm(x + self.attention(x, bias))


class FFNSubLayer(nn.Module):
    def __init__(self, hidden_size, filter_size):
        super().__init__()
        self.ffn_layer = FeedForward(hidden_size, filter_size)
        self.layer_norm = nn.LayerNorm(hidden_size, eps=1e-6)

    def forward(self, x):
        return self.layer_norm(x + self.ffn_layer(x))


class EncoderLayer(nn.Module):
    def __init__(self, hidden_size, filter_size, num_heads):
        super().__init__()
        self.feed_forward = FFNSubLayer(hidden_size, filter_size)
        self.self_attention = AttentionSubLayer(hidden_size, num_heads)

    def forward(self, x, bias):
        return self.self_attention(self.feed_forward(x), bias)


class PositionalEmbedding(nn.Module):
    """Adds sines in the first half of the channels, cosines in the second."""

    def forward(self, x):
        _, length, channels = x.shape
        half = channels // 2
        rates = torch.exp(torch.arange(half, dtype=x.dtype) * -(math.log(1e4) / (half - 1)))
        angles = torch.outer(torch.arange(length, dtype=x.dtype), rates)
        return x + torch.cat([angles.sin(), angles.cos()], dim=-1)


class SmoothedCrossEntropy(nn.Module):
    def __init__(self, smoothing, classes):
        super().__init__()
        self.on = 1.0 - smoothing
        self.off = smoothing / (classes - 1)
        self.least = -(self.on * math.log(self.on) + smoothing * math.log(self.off + 1e-20))

    def forward(self, logits, labels):
        logp = torch.log_softmax(logits, dim=-1)
        hit = logp.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
        loss = -self.on * hit - self.off * (logp.sum(-1) - hit)
        return loss - self.least


class Model(nn.Module):
    def __init__(self, vocab=53, labels=9, feature_size=16, hidden_size=32, filter_size=48, heads=4, layers=2):
        super().__init__()
        self.embedding = nn.Parameter(torch.empty(vocab, feature_size))
        self.weights = nn.Parameter(torch.empty(2, feature_size))
        self.bias = nn.Parameter(torch.zeros(hidden_size))
        self.encoding = PositionalEmbedding()
        self.layers = nn.ModuleList(EncoderLayer(hidden_size, filter_size, heads) for _ in range(layers))
        self.classifier = nn.Linear(hidden_size, labels)
        self.criterion = SmoothedCrossEntropy(0.1, labels)
        self.hidden_size = hidden_size
        for table in (self.embedding, self.weights):
            nn.init.normal_(table, std=feature_size ** -0.5)

    def forward(self, tokens, preds, mask, targets):
        x = torch.cat([F.embedding(tokens, self.embedding), F.embedding(preds, self.weights)], dim=-1)
        x = x * self.hidden_size ** 0.5 * mask.unsqueeze(-1)
        x = self.encoding(x + self.bias)
        attn_bias = (1.0 - mask)[:, None, None, :] * -1e9
        for layer in self.layers:
            x = layer(x, attn_bias)
        logits = self.classifier(x)
        cost = self.criterion(logits, targets)
        return (cost * mask).sum() / mask.sum(), x, logits


def loss(model, tokens, preds, mask, targets):
    cost, encoded, logits = model(tokens.long(), preds.long(), mask, targets.long())
    return cost, {"encoder": encoded, "logits": logits}


def optimizer(model):
    return torch.optim.Adadelta(model.parameters(), lr=1.0, rho=0.95, eps=1e-6)


def clip_by_global_norm(parameters, limit):
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.stack([g.norm() for g in grads]).norm()
    for g in grads:
        g.mul_(limit / norm.clamp(min=limit))


def step(model, optimizer, scheduler, tokens, preds, mask, targets):
    optimizer.zero_grad()
    cost, outputs = loss(model, tokens, preds, mask, targets)
    cost.backward()
    clip_by_global_norm(model.parameters(), 1.0)
    optimizer.step()
    return cost, outputs
