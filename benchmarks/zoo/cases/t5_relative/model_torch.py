"""A T5 v1.1 encoder with a tied head that predicts masked tokens."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class T5LayerNorm(nn.Module):
    """No mean is subtracted and no bias added."""

    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, x):
        variance = x.pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + self.variance_epsilon))


class T5Attention(nn.Module):
    def __init__(self, d_model, d_kv, n_heads, has_relative_attention_bias=False, num_buckets=8, max_distance=16):
        super().__init__()
        self.n_heads = n_heads
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.q = nn.Linear(d_model, n_heads * d_kv, bias=False)
        self.k = nn.Linear(d_model, n_heads * d_kv, bias=False)
        self.v = nn.Linear(d_model, n_heads * d_kv, bias=False)
        self.o = nn.Linear(n_heads * d_kv, d_model, bias=False)
        if has_relative_attention_bias:
            self.relative_attention_bias = nn.Embedding(num_buckets, n_heads)

    def _relative_position_bucket(self, relative_position):
        num_buckets = self.num_buckets // 2
        buckets = (relative_position > 0).long() * num_buckets
        distance = relative_position.abs()
        max_exact = num_buckets // 2
        ratio = torch.log(distance.clamp(min=1).float() / max_exact) / math.log(self.max_distance / max_exact)
        large = (max_exact + (ratio * (num_buckets - max_exact)).long()).clamp(max=num_buckets - 1)
        return buckets + torch.where(distance < max_exact, distance, large)

    def compute_bias(self, length):
        positions = torch.arange(length, device=self.relative_attention_bias.weight.device)
        context_position, memory_position = positions[:, None], positions[None, :]
        buckets = self._relative_position_bucket(memory_position - context_position)
        return self.relative_attention_bias(buckets).permute(2, 0, 1).unsqueeze(0)

    def forward(self, x, bias):
        q, k, v = (layer(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        scores = q @ k.transpose(-1, -2)
        weights = F.softmax(scores + bias, dim=-1)
        return self.o((weights @ v).transpose(1, 2).flatten(2))


class T5DenseGatedGelu(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.wi_0 = nn.Linear(d_model, d_ff, bias=False)
        self.wi_1 = nn.Linear(d_model, d_ff, bias=False)
        self.wo = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        return self.wo(F.gelu(self.wi_0(x), approximate="tanh") * self.wi_1(x))


class T5Block(nn.Module):
    def __init__(self, d_model, d_kv, d_ff, n_heads, has_relative_attention_bias):
        super().__init__()
        self.attention_norm = T5LayerNorm(d_model)
        self.attention = T5Attention(d_model, d_kv, n_heads, has_relative_attention_bias)
        self.ff_norm = T5LayerNorm(d_model)
        self.ff = T5DenseGatedGelu(d_model, d_ff)

    def forward(self, x, bias):
        x = x + self.attention(self.attention_norm(x), bias)
        return x + self.ff(self.ff_norm(x))


class Model(nn.Module):
    def __init__(self, vocab_size=60, d_model=32, d_kv=8, d_ff=48, n_heads=4, n_layers=2):
        super().__init__()
        self.d_model = d_model
        self.shared = nn.Embedding(vocab_size, d_model)
        self.block = nn.ModuleList(
            T5Block(d_model, d_kv, d_ff, n_heads, has_relative_attention_bias=i == 0) for i in range(n_layers)
        )
        self.final_layer_norm = T5LayerNorm(d_model)

    def forward(self, input_ids):
        x = self.shared(input_ids)
        padding = (input_ids == 0).to(x.dtype)
        mask = padding[:, None, None, :] * -1e9
        # every layer adds the first one's bias
        position_bias = self.block[0].attention.compute_bias(input_ids.size(1))
        outputs = {}
        for i, block in enumerate(self.block):
            x = block(x, position_bias + mask)
            outputs[f"block_{i}"] = x
        x = self.final_layer_norm(x)
        outputs["logits"] = F.linear(x * self.d_model ** -0.5, self.shared.weight)
        return outputs


def loss(model, inputs, targets, weights):
    outputs = model(inputs.long())
    logits = outputs["logits"]
    losses = F.cross_entropy(logits.transpose(1, 2), targets.long(), reduction="none")
    z_loss = 1e-3 * torch.logsumexp(logits, dim=-1).pow(2)
    return ((losses + z_loss) * weights).sum() / 64.0, outputs
