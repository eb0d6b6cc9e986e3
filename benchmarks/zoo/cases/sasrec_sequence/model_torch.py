import math

import torch
from torch import nn
import torch.nn.functional as F

ITEMS, LENGTH = 41, 9
L2 = 0.001
MASKED = -2.0 ** 32 + 1     # finite, so that rows of padding give no NaN


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim, bias=False)
        self.value = nn.Linear(dim, dim)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, queries, keys, present):
        q, k, v = self.split(self.query(queries)), self.split(self.key(keys)), self.split(self.value(keys))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        causal = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        allowed = causal & present[:, None, None, :]
        weights = scores.masked_fill(~allowed, MASKED).softmax(dim=-1)
        weights = weights * present[:, None, :, None]
        return (weights @ v).transpose(1, 2).flatten(2)


class PointWiseFeedForward(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.conv1 = nn.Conv1d(dim, dim, kernel_size=1)
        self.conv2 = nn.Conv1d(dim, dim, kernel_size=1)

    def forward(self, x):
        return self.conv2(F.relu(self.conv1(x.transpose(1, 2)))).transpose(1, 2)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-8)
        self.attention = SelfAttention(dim, heads)
        self.norm2 = nn.LayerNorm(dim, eps=1e-8)
        self.feed_forward = PointWiseFeedForward(dim)

    def forward(self, x, present):
        # as published: only the queries are normalised, and the residual starts behind the norm
        q = self.norm1(x)
        x = q + self.attention(q, x, present)
        x = self.norm2(x)
        x = x + self.feed_forward(x)
        return x * present.unsqueeze(-1)


class Model(nn.Module):
    def __init__(self, dim=16, blocks=2, heads=2):
        super().__init__()
        self.dim = dim
        self.items = nn.Embedding(ITEMS + 1, dim, padding_idx=0)
        self.positions = nn.Embedding(LENGTH, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(blocks))
        self.norm = nn.LayerNorm(dim, eps=1e-8)

    def encode(self, seq, dropout):
        present = seq != 0
        x = self.items(seq) * math.sqrt(self.dim)
        x = x + self.positions(torch.arange(seq.size(1), device=seq.device))
        if self.training:
            x = x * dropout
        x = x * present.unsqueeze(-1)
        outputs = {"embedded": x}
        for i, block in enumerate(self.blocks):
            x = block(x, present)
            outputs[f"block_{i}"] = x
        return self.norm(x), outputs

    def forward(self, seq, pos, neg, dropout):
        x, outputs = self.encode(seq, dropout)
        pos_logits = (self.items(pos) * x).sum(dim=-1)
        neg_logits = (self.items(neg) * x).sum(dim=-1)
        penalty = 0.5 * (self.items.weight.square().sum() + self.positions.weight.square().sum())
        return pos_logits, neg_logits, penalty, outputs


def loss(model, seq, pos, neg, dropout):
    pos_logits, neg_logits, penalty, outputs = model(seq, pos, neg, dropout)
    target = (pos != 0).to(pos_logits.dtype)
    losses = F.softplus(-pos_logits) + F.softplus(neg_logits)
    total = (losses * target).sum() / target.sum() + L2 * penalty
    return total, {**outputs, "pos_logits": pos_logits * target, "neg_logits": neg_logits * target}


class TFAdam(torch.optim.Optimizer):
    """tf.train.AdamOptimizer: epsilon is added outside of the bias correction."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p)
                    state["exp_avg_sq"] = torch.zeros_like(p)
                state["step"] += 1
                state["exp_avg"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                correction = math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
                denominator = state["exp_avg_sq"].sqrt().add_(group["eps"])
                p.addcdiv_(state["exp_avg"], denominator, value=-group["lr"] * correction)


def optimizer(model):
    return TFAdam(model.parameters(), lr=0.004, betas=(0.9, 0.98))
