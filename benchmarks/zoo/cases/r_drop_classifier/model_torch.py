"""A small post-norm encoder trained with R-Drop; the dropout masks of both passes come with the batch."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(dim, dim)
        self.k_proj = nn.Linear(dim, dim)
        self.v_proj = nn.Linear(dim, dim)
        self.out_proj = nn.Linear(dim, dim)

    def forward(self, x, padding):
        def split(t):
            return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        q, k, v = split(self.q_proj(x)), split(self.k_proj(x)), split(self.v_proj(x))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        scores = scores.masked_fill(padding[:, None, None, :], -1e4)
        context = scores.softmax(dim=-1) @ v
        return self.out_proj(context.transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads, eps):
        super().__init__()
        self.attn = SelfAttention(dim, heads)
        self.attn_norm = nn.LayerNorm(dim, eps=eps)
        self.ffn = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
        self.ffn_norm = nn.LayerNorm(dim, eps=eps)

    def forward(self, x, padding):
        x = self.attn_norm(x + self.attn(x, padding))
        return self.ffn_norm(x + self.ffn(x))


class Model(nn.Module):
    def __init__(self, vocab=48, length=8, dim=16, heads=2, num_classes=6, eps=1e-12):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(length, dim)
        self.input_norm = nn.LayerNorm(dim, eps=eps)
        self.layer = EncoderLayer(dim, heads, eps)
        self.pool = nn.Linear(dim, dim)
        self.fc = nn.Linear(dim, num_classes)

    def forward(self, tokens, embedding_mask, pooled_mask):
        padding = tokens == 0
        x = self.tok(tokens) + self.pos(torch.arange(tokens.size(1), device=tokens.device))
        x = self.input_norm(x) * embedding_mask
        x = self.layer(x, padding)
        pooled = torch.tanh(self.pool(x[:, 0])) * pooled_mask
        return x, self.fc(pooled)


def symmetric_kl(a, b):
    log_p, log_q = F.log_softmax(a, dim=-1), F.log_softmax(b, dim=-1)
    p_q = F.kl_div(log_q, log_p, log_target=True, reduction="batchmean")
    q_p = F.kl_div(log_p, log_q, log_target=True, reduction="batchmean")
    return (p_q + q_p) / 2


def loss(model, tokens, labels, embedding_masks, pooled_masks):
    tokens, labels = tokens.long().repeat(2, 1), labels.long().repeat(2)
    embedding_mask = torch.cat([embedding_masks[:, 0], embedding_masks[:, 1]])
    pooled_mask = torch.cat([pooled_masks[:, 0], pooled_masks[:, 1]])
    hidden, logits = model(tokens, embedding_mask, pooled_mask)
    cross_entropy = F.cross_entropy(logits, labels, label_smoothing=0.1)
    consistency = symmetric_kl(*logits.chunk(2))
    total = cross_entropy + 1.5 * consistency
    return total, {"hidden": hidden, "logits": logits, "cross_entropy": cross_entropy, "consistency": consistency}


class Adam(torch.optim.Optimizer):
    """Adam whose epsilon is added before the moments are corrected ("epsilon hat" of the paper)."""

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
                state["exp_avg"].lerp_(p.grad, 1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                root = math.sqrt(1 - beta2 ** state["step"])
                rate = group["lr"] * root / (1 - beta1 ** state["step"])
                p.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt().add_(group["eps"]), value=-rate)


def optimizer(model):
    return Adam(model.parameters(), lr=2e-3, eps=1e-6)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - min(step, 20) / 20)
