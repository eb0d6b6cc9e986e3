"""A small GPT with pre-norm blocks and tied embeddings."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, d_model, n_head):
        super().__init__()
        self.norm1 = nn.LayerNorm(d_model, eps=1e-5)
        self.self_attn = nn.MultiheadAttention(d_model, n_head, batch_first=True)
        self.norm2 = nn.LayerNorm(d_model, eps=1e-5)
        self.linear1 = nn.Linear(d_model, 4 * d_model)
        self.linear2 = nn.Linear(4 * d_model, d_model)

    def forward(self, x, causal_mask):
        y = self.norm1(x)
        x = x + self.self_attn(y, y, y, attn_mask=causal_mask, need_weights=False)[0]
        return x + self.linear2(F.gelu(self.linear1(self.norm2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self, vocab_size=64, context=14, d_model=32, n_head=4, n_layer=2):
        super().__init__()
        self.d_model = d_model
        self.token_embedding = nn.Embedding(vocab_size, d_model)
        self.position_embedding = nn.Parameter(torch.randn(context, d_model) * 0.01)
        self.blocks = nn.ModuleList(Block(d_model, n_head) for _ in range(n_layer))
        self.final_norm = nn.LayerNorm(d_model, eps=1e-5)
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False)
        self.lm_head.weight = self.token_embedding.weight

    def forward(self, tokens):
        length = tokens.size(1)
        causal_mask = torch.ones(length, length, dtype=torch.bool, device=tokens.device).triu(1)
        embedded = self.token_embedding(tokens) * math.sqrt(self.d_model) + self.position_embedding[:length]
        x = embedded
        for block in self.blocks:
            x = block(x, causal_mask)
        x = self.final_norm(x)
        return embedded, x, self.lm_head(x)


def smoothed_cross_entropy(logits, targets, smoothing):
    """The smoothing mass goes to the other classes; the loss is 0 where the prediction is the smoothed target."""
    others = logits.size(-1) - 1
    log_probs = F.log_softmax(logits, dim=-1)
    nll = -log_probs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    rest = -log_probs.sum(-1) - nll
    confidence, low = 1.0 - smoothing, smoothing / others
    entropy = -(confidence * math.log(confidence) + others * low * math.log(low + 1e-20))
    return confidence * nll + low * rest - entropy


def loss(model, inputs, targets, weights):
    embedded, hidden, logits = model(inputs.long())
    losses = smoothed_cross_entropy(logits, targets.long(), smoothing=0.1)
    total = (losses * weights).sum() / weights.sum()
    return total, {"embedded": embedded, "hidden": hidden, "logits": logits}
