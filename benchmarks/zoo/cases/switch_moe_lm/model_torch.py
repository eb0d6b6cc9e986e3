"""Decoder-only language model whose second block routes each token to one of several experts."""

import torch
from torch import nn
from torch.nn import functional as F


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Attention(nn.Module):
    """Unscaled dot products: the scale belongs to the initialisation of the queries."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, dim, bias=False)
        self.v_proj = nn.Linear(dim, dim, bias=False)
        self.out_proj = nn.Linear(dim, dim, bias=False)
        nn.init.normal_(self.q_proj.weight, std=(dim * dim // heads) ** -0.5)

    def forward(self, x, mask):
        q, k, v = (proj(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for proj in (self.q_proj, self.k_proj, self.v_proj))
        scores = q @ k.transpose(-2, -1)
        scores = scores.masked_fill(~mask, float("-inf"))
        context = scores.softmax(dim=-1) @ v
        return self.out_proj(context.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.down(F.relu(self.up(x)))


class SwitchFeedForward(nn.Module):
    """Top-1 routing. Tokens that find their expert full are passed by: they get zeros."""

    def __init__(self, dim, hidden, num_experts=4, capacity_factor=1.25):
        super().__init__()
        self.num_experts = num_experts
        self.capacity_factor = capacity_factor
        self.gate = nn.Linear(dim, num_experts, bias=False)
        self.experts = nn.ModuleList(FeedForward(dim, hidden) for _ in range(num_experts))

    def forward(self, x, valid):
        router_logits = self.gate(x)
        probs = router_logits.softmax(dim=-1)
        top_prob, top_expert = probs.max(dim=-1)
        assigned = F.one_hot(top_expert, self.num_experts)

        load = assigned.to(x.dtype).mean(dim=1)
        importance = probs.mean(dim=1)
        balance_loss = (load * importance).mean() * self.num_experts ** 2
        z_loss = router_logits.logsumexp(dim=-1).pow(2).mean()

        assigned = assigned * valid.unsqueeze(-1)
        capacity = int(self.capacity_factor * x.size(1) / self.num_experts)
        admitted = assigned.bool() & (assigned.cumsum(dim=1) <= capacity)
        y = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            chosen = admitted[..., i]
            y[chosen] = expert(x[chosen])
        return y * top_prob.unsqueeze(-1), balance_loss, z_loss


class Block(nn.Module):
    def __init__(self, dim, heads, ffn):
        super().__init__()
        self.norm1 = RMSNorm(dim)
        self.attn = Attention(dim, heads)
        self.norm2 = RMSNorm(dim)
        self.ffn = ffn


class Model(nn.Module):
    def __init__(self, vocab_size=40, max_len=12, dim=16, heads=2):
        super().__init__()
        self.dim = dim
        self.tok_emb = nn.Embedding(vocab_size, dim)
        self.pos_emb = nn.Parameter(torch.randn(max_len, dim) * 0.1)
        self.dense_block = Block(dim, heads, FeedForward(dim, 2 * dim))
        self.moe_block = Block(dim, heads, SwitchFeedForward(dim, 24))
        self.norm = RMSNorm(dim)

    def forward(self, tokens, valid):
        length = tokens.size(1)
        causal = torch.ones(length, length, dtype=torch.bool, device=tokens.device).tril()
        mask = causal & valid[:, None, None, :]
        x = self.tok_emb(tokens) + self.pos_emb[:length]

        block = self.dense_block
        x = x + block.attn(block.norm1(x), mask)
        first = x = x + block.ffn(block.norm2(x))

        block = self.moe_block
        x = x + block.attn(block.norm1(x), mask)
        routed, balance, z_loss = block.ffn(block.norm2(x), valid)
        hidden = self.norm(x + routed)
        logits = F.linear(hidden * self.dim ** -0.5, self.tok_emb.weight)
        return first, hidden, logits, balance, z_loss


def loss(model, inputs, targets, nonpadding):
    first, hidden, logits, balance, z_loss = model(inputs.long(), nonpadding > 0)
    token_losses = F.cross_entropy(logits.transpose(1, 2), targets.long(), reduction="none")
    cross_entropy = (token_losses * nonpadding).sum() / nonpadding.sum()
    total = cross_entropy + 1e-2 * balance + 1e-3 * z_loss
    outputs = {"first": first, "hidden": hidden, "logits": logits, "cross_entropy": cross_entropy, "balance": balance}
    return total, outputs


def rate(step):
    """Linear from 3e-3 to 3e-4 within ten updates."""
    done = min(step, 10) / 10
    return 3e-3 + (3e-4 - 3e-3) * done
