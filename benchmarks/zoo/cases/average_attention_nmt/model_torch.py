import math

import torch
import torch.nn as nn
import torch.nn.functional as F

SMOOTHING = 0.1


class PositionalSignal(nn.Module):
    """Adds sines, and behind them cosines, of geometric frequencies."""

    def __init__(self, dim, max_len=32, max_timescale=1.0e4):
        super().__init__()
        half = dim // 2
        scales = torch.exp(torch.arange(half, dtype=torch.float64) * -(math.log(max_timescale) / (half - 1)))
        time = torch.arange(max_len, dtype=torch.float64).unsqueeze(1) * scales
        signal = torch.cat([torch.sin(time), torch.cos(time)], dim=1)
        self.register_buffer("signal", signal.to(torch.get_default_dtype()), persistent=False)

    def forward(self, x):
        return x + self.signal[:x.size(1)]


class FeedForward(nn.Sequential):
    def __init__(self, dim, hidden):
        super().__init__(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))


class AverageAttention(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.average_layer = FeedForward(dim, hidden)
        self.gating_layer = nn.Linear(dim * 2, dim * 2)

    def forward(self, inputs, counts):
        average = torch.cumsum(inputs, dim=1) / counts
        average = self.average_layer(average)
        input_gate, forget_gate = self.gating_layer(torch.cat((inputs, average), -1)).chunk(2, dim=-1)
        return torch.sigmoid(input_gate) * inputs + torch.sigmoid(forget_gate) * average


class ContextAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.linear_query = nn.Linear(dim, dim)
        self.linear_keys_values = nn.Linear(dim, 2 * dim)
        self.final_linear = nn.Linear(dim, dim)

    def shape(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, memory, padding):
        query = self.shape(self.linear_query(x))
        key, value = (self.shape(part) for part in self.linear_keys_values(memory).chunk(2, dim=-1))
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.size(-1))
        scores = scores.masked_fill(padding[:, None, None, :], -1e9)
        context = torch.softmax(scores, dim=-1) @ value
        return self.final_linear(context.transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    def __init__(self, dim, hidden, heads):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.feed_forward = FeedForward(dim, hidden)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)

    def forward(self, x, padding):
        attended, _ = self.self_attn(x, x, x, key_padding_mask=padding, need_weights=False)
        x = self.norm1(x + attended)
        return self.norm2(x + self.feed_forward(x))


class DecoderLayer(nn.Module):
    def __init__(self, dim, hidden, heads):
        super().__init__()
        self.self_attn = AverageAttention(dim, hidden)
        self.layer_norm_1 = nn.LayerNorm(dim, eps=1e-6)
        self.context_attn = ContextAttention(dim, heads)
        self.layer_norm_2 = nn.LayerNorm(dim, eps=1e-6)
        self.feed_forward = FeedForward(dim, hidden)
        self.layer_norm_3 = nn.LayerNorm(dim, eps=1e-6)

    def forward(self, x, memory, padding, counts):
        averaged = self.layer_norm_1(x + self.self_attn(x, counts))
        x = self.layer_norm_2(averaged + self.context_attn(averaged, memory, padding))
        return self.layer_norm_3(x + self.feed_forward(x)), averaged


class Model(nn.Module):
    def __init__(self, source_vocab=28, target_vocab=24, dim=16, hidden=32, heads=4, encoder_layers=1, decoder_layers=2):
        super().__init__()
        self.scale = math.sqrt(dim)
        self.src_embed = nn.Embedding(source_vocab, dim)
        self.tgt_embed = nn.Embedding(target_vocab, dim)
        self.src_bias = nn.Parameter(torch.zeros(dim))
        self.position = PositionalSignal(dim)
        self.encoder = nn.ModuleList([EncoderLayer(dim, hidden, heads) for _ in range(encoder_layers)])
        self.decoder = nn.ModuleList([DecoderLayer(dim, hidden, heads) for _ in range(decoder_layers)])
        self.generator = nn.Linear(dim, target_vocab, bias=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)
        for table in (self.src_embed, self.tgt_embed):
            nn.init.normal_(table.weight, std=dim ** -0.5)
        self.generator.weight = self.tgt_embed.weight

    def encode(self, source, source_mask):
        x = self.src_embed(source) * self.scale * source_mask.unsqueeze(-1)
        x = self.position(x + self.src_bias)
        for layer in self.encoder:
            x = layer(x, source_mask == 0)
        return x

    def decode(self, target, target_mask, memory, source_mask):
        y = self.tgt_embed(target) * self.scale * target_mask.unsqueeze(-1)
        y = F.pad(y, (0, 0, 1, 0))[:, :-1]
        y = self.position(y)
        counts = target_mask.cumsum(dim=1).clamp(min=1).unsqueeze(-1)
        averages = []
        for layer in self.decoder:
            y, averaged = layer(y, memory, source_mask == 0, counts)
            averages.append(averaged)
        return y, averages

    def forward(self, source, source_mask, target, target_mask):
        memory = self.encode(source, source_mask)
        decoded, averages = self.decode(target, target_mask, memory, source_mask)
        return memory, averages, decoded, self.generator(decoded)


def smoothed_cross_entropy(logits, labels, smoothing):
    log_p = F.log_softmax(logits, dim=-1)
    nll = -log_p.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    if smoothing == 0:
        return nll
    others = logits.size(-1) - 1
    p, q = 1.0 - smoothing, smoothing / others
    smooth = -log_p.sum(dim=-1) - nll
    normalizing = -(p * math.log(p) + others * q * math.log(q + 1e-20))
    return p * nll + q * smooth - normalizing


def loss(model, source, source_mask, target, target_mask):
    target = target.long()
    memory, averages, decoded, logits = model(source.long(), source_mask, target, target_mask)
    logits = logits.flatten(0, 1)
    ce = smoothed_cross_entropy(logits, target.flatten(), SMOOTHING if model.training else 0.0)
    mask = target_mask.flatten()
    value = (ce * mask).sum() / mask.sum()
    ends = {"average_%d" % i: a for i, a in enumerate(averages)}
    ends.update(memory=memory, decoded=decoded, logits=logits)
    return value, ends
