"""A small vision transformer in the style of timm."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj, self.k_proj, self.v_proj = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = (f(x).view(b, n, self.num_heads, -1).transpose(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj))
        x = F.scaled_dot_product_attention(q, k, v)
        return self.proj(x.transpose(1, 2).reshape(b, n, c))


class Mlp(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = Attention(dim, num_heads)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = Mlp(dim, 3 * dim)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return x


class Model(nn.Module):
    def __init__(self, dim=24, num_heads=3, depth=2, num_classes=9):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, dim, kernel_size=4, stride=4)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.randn(1, 17, dim) * 0.02)
        self.blocks = nn.ModuleList(Block(dim, num_heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.head = nn.Linear(dim, num_classes)

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.size(0), -1, -1), x], dim=1) + self.pos_embed
        out = {"embedded": x}
        for i, block in enumerate(self.blocks):
            out[f"block_{i}"] = x = block(x)
        out["feature"] = self.norm(x)[:, 0]
        out["logits"] = self.head(out["feature"])
        return out


def loss(model, images, labels):
    out = model(images.permute(0, 3, 1, 2).contiguous())
    return F.cross_entropy(out["logits"], labels.long()), out


def optimizer(model):
    sgd = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    sgd.register_step_pre_hook(lambda *_: clip_by_global_norm(list(model.parameters()), 1.0))
    return sgd


def clip_by_global_norm(parameters, limit):
    norm = torch.sqrt(sum(p.grad.pow(2).sum() for p in parameters))
    for p in parameters:
        p.grad.mul_(limit / torch.clamp(norm, min=limit))


def scheduler(step):
    """Cosine decay to nothing over ten updates, without warm-up."""
    return 0.03 * 0.5 * (1 + math.cos(math.pi * min(step, 10) / 10))
