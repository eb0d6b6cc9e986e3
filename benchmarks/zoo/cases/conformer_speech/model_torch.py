"""A small conformer that classifies utterances."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm1d(nn.BatchNorm1d):
    """The running variance takes the batch's variance as it is, not Bessel's."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=(0, 2), unbiased=False)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        half = d_model // 2
        frequencies = torch.exp(torch.arange(half, dtype=torch.float64) * (-math.log(1e4) / (half - 1)))
        angles = torch.arange(max_len, dtype=torch.float64)[:, None] * frequencies
        pe = torch.cat([angles.sin(), angles.cos()], dim=1)
        self.register_buffer("pe", pe, persistent=False)

    def forward(self, x):
        return x + self.pe[: x.size(1)].to(x.dtype)


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.net = nn.Sequential(
            nn.LayerNorm(d_model, eps=1e-6), nn.Linear(d_model, d_ff), nn.SiLU(), nn.Linear(d_ff, d_model)
        )

    def forward(self, x):
        return self.net(x)


class ConvolutionModule(nn.Module):
    def __init__(self, d_model, kernel_size):
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps=1e-6)
        self.pointwise1 = nn.Conv1d(d_model, 2 * d_model, 1)
        self.depthwise = nn.Conv1d(d_model, d_model, kernel_size, padding=kernel_size // 2, groups=d_model)
        self.batch_norm = BatchNorm1d(d_model, eps=1e-3, momentum=0.02)
        self.pointwise2 = nn.Conv1d(d_model, d_model, 1)

    def forward(self, x, padding_mask):
        x = self.norm(x).transpose(1, 2)
        x = F.glu(self.pointwise1(x), dim=1)
        x = x.masked_fill(padding_mask.unsqueeze(1), 0.0)
        x = F.silu(self.batch_norm(self.depthwise(x)))
        return self.pointwise2(x).transpose(1, 2)


class ConformerBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, kernel_size):
        super().__init__()
        self.ffn1 = FeedForward(d_model, d_ff)
        self.attn_norm = nn.LayerNorm(d_model, eps=1e-6)
        self.attn = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.conv = ConvolutionModule(d_model, kernel_size)
        self.ffn2 = FeedForward(d_model, d_ff)
        self.out_norm = nn.LayerNorm(d_model, eps=1e-6)

    def forward(self, x, padding_mask):
        x = x + 0.5 * self.ffn1(x)
        y = self.attn_norm(x)
        attended = x + self.attn(y, y, y, key_padding_mask=padding_mask, need_weights=False)[0]
        x = attended + self.conv(attended, padding_mask)
        x = x + 0.5 * self.ffn2(x)
        return attended, self.out_norm(x)


class SpeechClassifier(nn.Module):
    def __init__(self, num_mels=10, d_model=16, num_classes=6):
        super().__init__()
        self.subsample = nn.Conv1d(num_mels, d_model, 3, stride=2)
        self.positions = PositionalEncoding(d_model, max_len=16)
        self.block = ConformerBlock(d_model, num_heads=4, d_ff=48, kernel_size=5)
        self.classifier = nn.Linear(d_model, num_classes)

    def forward(self, features, frames):
        # an even number of frames needs one more, on the right
        x = F.relu(self.subsample(F.pad(features.transpose(1, 2), (0, 1)))).transpose(1, 2)
        lengths = (frames + 1) // 2
        padding_mask = torch.arange(x.size(1), device=x.device) >= lengths.unsqueeze(1)
        attended, encoded = self.block(self.positions(x), padding_mask)
        valid = (~padding_mask).unsqueeze(-1).to(x.dtype)
        pooled = (encoded * valid).sum(dim=1) / valid.sum(dim=1)
        return attended, encoded, self.classifier(pooled)


def loss(model, features, frames, labels):
    attended, encoded, logits = model(features, frames.long())
    cross_entropy = F.cross_entropy(logits, labels.long())
    l2 = sum(p.square().sum() / 2 for p in model.parameters() if p.ndim >= 2)
    outputs = {"attended": attended, "encoded": encoded, "logits": logits, "cross_entropy": cross_entropy}
    return cross_entropy + 1e-3 * l2, outputs


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 0.5 * (1 + math.cos(math.pi * min(n, 8) / 8)))
