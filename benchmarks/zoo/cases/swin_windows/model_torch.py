"""Swin transformer in the manner of the official repository, on small pictures."""
import math
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

BASE_LR, TOTAL, MIN_RATIO = 3e-3, 6, 0.1
MAX_NORM = 0.5
LayerNorm = partial(nn.LayerNorm, eps=1e-5)


def window_partition(x, size):
    B, H, W, C = x.shape
    x = x.view(B, H // size, size, W // size, size, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, size * size, C)


def window_reverse(windows, size, H, W):
    B = windows.shape[0] // (H * W // size // size)
    x = windows.view(B, H // size, W // size, size, size, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, -1)


class Mlp(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


class WindowAttention(nn.Module):
    def __init__(self, dim, window, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.relative_position_bias_table = nn.Parameter(torch.empty((2 * window - 1) ** 2, num_heads))
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.3)
        coords = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        relative = (coords[:, :, None] - coords[:, None, :]).permute(1, 2, 0).contiguous()
        relative += window - 1
        relative[:, :, 0] *= 2 * window - 1
        self.register_buffer("relative_position_index", relative.sum(-1))
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, x, mask=None):
        B_, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B_, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        bias = self.relative_position_bias_table[self.relative_position_index.view(-1)].view(N, N, -1)
        attn = attn + bias.permute(2, 0, 1).unsqueeze(0)
        if mask is not None:
            nW = mask.shape[0]
            attn = attn.view(B_ // nW, nW, self.num_heads, N, N) + mask.unsqueeze(1).unsqueeze(0)
            attn = attn.view(-1, self.num_heads, N, N)
        attn = self.softmax(attn)
        return self.proj((attn @ v).transpose(1, 2).reshape(B_, N, C))


class SwinBlock(nn.Module):
    def __init__(self, dim, resolution, num_heads, window, shift, mlp_ratio=2):
        super().__init__()
        self.window, self.shift = window, shift
        self.norm1 = LayerNorm(dim)
        self.attn = WindowAttention(dim, window, num_heads)
        self.norm2 = LayerNorm(dim)
        self.mlp = Mlp(dim, dim * mlp_ratio)
        attn_mask = None
        if shift > 0:
            H, W = resolution
            regions = torch.zeros(1, H, W, 1)
            slices = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
            count = 0
            for h in slices:
                for w in slices:
                    regions[:, h, w, :] = count
                    count += 1
            regions = window_partition(regions, window).squeeze(-1)
            attn_mask = regions.unsqueeze(1) - regions.unsqueeze(2)
            attn_mask = attn_mask.masked_fill(attn_mask != 0, -100.0).masked_fill(attn_mask == 0, 0.0)
        self.register_buffer("attn_mask", attn_mask)

    def forward(self, x):
        H, W = x.shape[1:3]
        shortcut = x
        x = self.norm1(x)
        if self.shift > 0:
            x = torch.roll(x, shifts=(-self.shift, -self.shift), dims=(1, 2))
        windows = self.attn(window_partition(x, self.window), mask=self.attn_mask)
        x = window_reverse(windows, self.window, H, W)
        if self.shift > 0:
            x = torch.roll(x, shifts=(self.shift, self.shift), dims=(1, 2))
        x = shortcut + x
        return x + self.mlp(self.norm2(x))


class PatchMerging(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = LayerNorm(4 * dim)
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)

    def forward(self, x):
        x0, x1 = x[:, 0::2, 0::2], x[:, 1::2, 0::2]
        x2, x3 = x[:, 0::2, 1::2], x[:, 1::2, 1::2]
        return self.reduction(self.norm(torch.cat([x0, x1, x2, x3], -1)))


class BasicLayer(nn.Module):
    def __init__(self, dim, resolution, depth, num_heads, window):
        super().__init__()
        shift = window // 2 if min(resolution) > window else 0
        self.blocks = nn.ModuleList(
            SwinBlock(dim, resolution, num_heads, window, 0 if i % 2 == 0 else shift) for i in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class PatchEmbed(nn.Module):
    def __init__(self, patch, dim):
        super().__init__()
        self.proj = nn.Conv2d(3, dim, kernel_size=patch, stride=patch)
        self.norm = LayerNorm(dim)

    def forward(self, x):
        return self.norm(self.proj(x).permute(0, 2, 3, 1))


class Model(nn.Module):
    def __init__(self, dim=12, depths=(2, 1), num_heads=(2, 4), window=4, size=16, patch=2, num_classes=6):
        super().__init__()
        self.patch_embed = PatchEmbed(patch, dim)
        self.layers, self.merges = nn.ModuleList(), nn.ModuleList()
        for i, (depth, heads) in enumerate(zip(depths, num_heads)):
            side = size // patch // 2 ** i
            self.layers.append(BasicLayer(dim * 2 ** i, (side, side), depth, heads, window))
            if i < len(depths) - 1:
                self.merges.append(PatchMerging(dim * 2 ** i))
        width = dim * 2 ** (len(depths) - 1)
        self.norm = LayerNorm(width)
        self.avgpool = nn.AdaptiveAvgPool1d(1)
        self.head = nn.Linear(width, num_classes)

    def forward(self, x):
        x = self.patch_embed(x)
        stages = []
        for i, layer in enumerate(self.layers):
            x = layer(x)
            stages.append(x)
            if i < len(self.merges):
                x = self.merges[i](x)
        x = self.norm(x).flatten(1, 2).transpose(1, 2)
        return stages, self.head(self.avgpool(x).flatten(1))


def loss(model, images, labels):
    stages, logits = model(images.permute(0, 3, 1, 2))
    value = F.cross_entropy(logits, labels.long(), label_smoothing=0.1)
    accuracy = (logits.argmax(1) == labels).to(logits.dtype).mean()
    return value, {"stage0": stages[0], "stage1": stages[1], "logits": logits, "accuracy": accuracy}


class Adam(torch.optim.Optimizer):
    """Adam as tf.train has it: epsilon beside the root of the uncorrected second moment."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))

    @torch.no_grad()
    def step(self):
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
                correction1 = 1 - beta1 ** state["step"]
                correction2 = 1 - beta2 ** state["step"]
                state["exp_avg"].lerp_(p.grad, 1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                step_size = group["lr"] * math.sqrt(correction2) / correction1
                p.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt().add_(group["eps"]), value=-step_size)


def optimizer(model):
    return Adam(model.parameters(), lr=BASE_LR)


def scheduler(optimizer):
    def factor(step):
        return MIN_RATIO + (1 - MIN_RATIO) * 0.5 * (1 + math.cos(math.pi * min(step, TOTAL) / TOTAL))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def clip_by_global_norm_(parameters, limit):
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.stack([g.norm() for g in grads]).norm()
    factor = limit / norm.clamp(min=limit)  # without the 1e-6 of clip_grad_norm_
    for g in grads:
        g.mul_(factor)


def step(model, optimizer, scheduler, images, labels):
    optimizer.zero_grad()
    value, outputs = loss(model, images, labels)
    value.backward()
    clip_by_global_norm_(model.parameters(), MAX_NORM)
    optimizer.step()
    scheduler.step()
    return value, outputs
