"""ConvS2S: gated convolutional encoder and decoder, an attention step in every layer of the decoder."""

import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

SQRT_HALF = math.sqrt(0.5)


class GradMultiply(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.scale, None


def linear(in_features, out_features):
    return weight_norm(nn.Linear(in_features, out_features))


def conv(in_channels, out_channels, kernel_size):
    return weight_norm(nn.Conv1d(in_channels, out_channels, kernel_size))


class Embedding(nn.Module):
    def __init__(self, vocab_size, embed_dim, max_positions=12):
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, embed_dim)
        self.positions = nn.Embedding(max_positions, embed_dim)

    def forward(self, ids):
        positions = torch.arange(ids.size(1), device=ids.device)
        return self.tokens(ids) + self.positions(positions)


class EncoderLayer(nn.Module):
    def __init__(self, channels, kernel_size):
        super().__init__()
        self.padding = kernel_size // 2
        self.conv = conv(channels, 2 * channels, kernel_size)

    def forward(self, x, mask):
        y = F.pad(x.transpose(1, 2), (self.padding, self.padding))
        y = F.glu(self.conv(y), dim=1).transpose(1, 2)
        return (y + x) * SQRT_HALF * mask


class Encoder(nn.Module):
    def __init__(self, vocab_size, embed_dim, channels, kernel_size, num_layers):
        super().__init__()
        self.embedding = Embedding(vocab_size, embed_dim)
        self.fc1 = linear(embed_dim, channels)
        self.layers = nn.ModuleList(EncoderLayer(channels, kernel_size) for _ in range(num_layers))
        self.fc2 = linear(channels, embed_dim)
        self.num_attention_layers = num_layers

    def forward(self, source, mask):
        embedded = self.embedding(source)
        mask = mask.unsqueeze(-1)
        x = self.fc1(embedded) * mask
        for layer in self.layers:
            x = layer(x, mask)
        x = self.fc2(x)
        x = GradMultiply.apply(x, 1.0 / (2.0 * self.num_attention_layers))
        return x, (x + embedded) * SQRT_HALF


class Attention(nn.Module):
    def __init__(self, channels, embed_dim):
        super().__init__()
        self.in_projection = linear(channels, embed_dim)
        self.out_projection = linear(embed_dim, channels)

    def forward(self, h, target_embedding, keys, values, mask):
        query = (self.in_projection(h) + target_embedding) * SQRT_HALF
        scores = torch.bmm(query, keys.transpose(1, 2))
        scores = scores.masked_fill(mask.unsqueeze(1) == 0, float("-inf"))
        attn = F.softmax(scores, dim=-1)
        x = torch.bmm(attn, values)
        s = mask.sum(dim=1).view(-1, 1, 1)
        x = x * (s * torch.rsqrt(s))
        return self.out_projection(x)


class DecoderLayer(nn.Module):
    def __init__(self, channels, embed_dim, kernel_size):
        super().__init__()
        self.kernel_size = kernel_size
        self.conv = conv(channels, 2 * channels, kernel_size)
        self.attention = Attention(channels, embed_dim)

    def forward(self, x, target_embedding, keys, values, mask):
        h = F.pad(x.transpose(1, 2), (self.kernel_size - 1, 0))
        h = F.glu(self.conv(h), dim=1).transpose(1, 2)
        h = (h + self.attention(h, target_embedding, keys, values, mask)) * SQRT_HALF
        return (h + x) * SQRT_HALF


class Decoder(nn.Module):
    def __init__(self, vocab_size, embed_dim, channels, kernel_size, num_layers):
        super().__init__()
        self.embedding = Embedding(vocab_size, embed_dim)
        self.fc1 = linear(embed_dim, channels)
        self.layers = nn.ModuleList(DecoderLayer(channels, embed_dim, kernel_size) for _ in range(num_layers))
        self.fc2 = linear(channels, embed_dim)
        self.fc3 = linear(embed_dim, vocab_size)

    def forward(self, target, keys, values, mask):
        embedded = self.embedding(target)
        x = self.fc1(embedded)
        for layer in self.layers:
            x = layer(x, embedded, keys, values, mask)
        return self.fc3(self.fc2(x))


class Model(nn.Module):
    def __init__(self, source_words=40, target_words=36, embed_dim=16, channels=20, kernel_size=3, num_layers=2):
        super().__init__()
        self.encoder = Encoder(source_words, embed_dim, channels, kernel_size, num_layers)
        self.decoder = Decoder(target_words, embed_dim, channels, kernel_size, num_layers)

    def forward(self, source, source_mask, target_in):
        keys, values = self.encoder(source, source_mask)
        return keys, self.decoder(target_in, keys, values, source_mask)


def loss(model, source, source_mask, target_in, target_out, target_weights):
    encoder_outputs, logits = model(source.long(), source_mask, target_in.long())
    losses = F.cross_entropy(logits.transpose(1, 2), target_out.long(), reduction="none")
    total = (losses * target_weights).sum() / target_weights.sum()
    return total, {"encoder_outputs": encoder_outputs, "logits": logits}


def clip_by_global_norm(parameters, limit):
    grads = [p.grad for p in parameters]
    norm = torch.sqrt(sum(g.pow(2).sum() for g in grads))
    for g in grads:
        g.mul_(limit / torch.clamp(norm, min=limit))


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.25, momentum=0.99, nesterov=True)


def step(model, optimizer, scheduler, **inputs):
    optimizer.zero_grad()
    total, outputs = loss(model, **inputs)
    total.backward()
    clip_by_global_norm(list(model.parameters()), 0.1)
    optimizer.step()
    return total, outputs
