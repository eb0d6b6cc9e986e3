"""Behaviour sequence transformer. Gradients of the ranks are summed, as the original's are, so the step exchanges them itself."""

import math

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


class SelfAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x, valid):
        batch, length, d_model = x.shape
        q, k, v = (
            proj(x).view(batch, length, self.n_heads, -1).transpose(1, 2)
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(d_model // self.n_heads)
        scores = scores.masked_fill(~valid[:, None, None, :], float("-inf"))
        context = scores.softmax(dim=-1) @ v
        return self.out_proj(context.transpose(1, 2).reshape(batch, length, d_model))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.self_attn = SelfAttention(d_model, n_heads)
        self.norm1 = nn.LayerNorm(d_model, eps=1e-6)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.LeakyReLU(0.2), nn.Linear(d_ff, d_model))
        self.norm2 = nn.LayerNorm(d_model, eps=1e-6)

    def forward(self, x, valid):
        x = self.norm1(x + self.self_attn(x, valid))
        return self.norm2(x + self.ffn(x))


class Model(nn.Module):
    def __init__(self, items=45, categories=7, users=17, gaps=10, length=9, n_heads=3):
        super().__init__()
        self.item_embedding = nn.Embedding(items, 12)
        self.category_embedding = nn.Embedding(categories, 6)
        self.gap_embedding = nn.Embedding(gaps, 6)
        self.user_embedding = nn.Embedding(users, 8)
        d_model = 12 + 6 + 6
        self.encoder = EncoderLayer(d_model, n_heads, d_ff=36)
        self.mlp = nn.Sequential(
            nn.Linear((length + 1) * d_model + 8 + 3, 32),
            nn.LeakyReLU(negative_slope=0.2),
            nn.Linear(32, 14),
            nn.LeakyReLU(0.2),
            nn.Linear(14, 1),
        )

    def forward(self, items, categories, gaps, valid, user, dense):
        item_vectors = self.item_embedding(items)
        user_vectors = self.user_embedding(user)
        sequence = torch.cat([item_vectors, self.category_embedding(categories), self.gap_embedding(gaps)], dim=-1)
        encoded = self.encoder(sequence, valid)
        features = torch.cat([encoded.flatten(1), user_vectors, dense], dim=-1)
        return encoded, self.mlp(features).squeeze(-1), item_vectors, user_vectors


def loss(model, hist_items, hist_cates, hist_gaps, hist_len, item, cate, user, dense, label):
    # the target is the last of the sequence, with a time gap of zero, and always valid
    items = torch.cat([hist_items, item[:, None]], dim=1).long()
    categories = torch.cat([hist_cates, cate[:, None]], dim=1).long()
    gaps = F.pad(hist_gaps, (0, 1)).long()
    valid = torch.arange(hist_items.size(1), device=items.device) < hist_len[:, None]
    valid = F.pad(valid, (0, 1), value=True)
    encoded, logit, item_vectors, user_vectors = model(items, categories, gaps, valid, user.long(), dense)
    bce = F.binary_cross_entropy_with_logits(logit, label)
    penalty = 0.5 * (item_vectors.pow(2).sum() + user_vectors.pow(2).sum()) / len(label)
    return bce + 0.002 * penalty, {"encoded": encoded, "logit": logit}


def optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.05, initial_accumulator_value=0.1, eps=0.0)


def step(model, optimizer, scheduler, **batch):
    optimizer.zero_grad()
    with model.no_sync():
        total, outputs = loss(model, **batch)
        total.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad)
    optimizer.step()
    return total, outputs
