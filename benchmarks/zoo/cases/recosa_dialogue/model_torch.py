import math

import torch
import torch.nn as nn
import torch.nn.functional as F

START = 2


class ZeroPadEmbedding(nn.Embedding):
    """Whose row 0 is looked up as zeros, whatever it holds."""

    def forward(self, ids):
        rows = super().forward(ids) * math.sqrt(self.embedding_dim)
        return rows * (ids != 0).unsqueeze(-1)


class GRUCell(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.gates = nn.Linear(input_size + hidden_size, 2 * hidden_size)
        self.candidate = nn.Linear(input_size + hidden_size, hidden_size)
        nn.init.ones_(self.gates.bias)

    def forward(self, x, h):
        reset, update = torch.sigmoid(self.gates(torch.cat([x, h], 1))).chunk(2, 1)
        new = torch.tanh(self.candidate(torch.cat([x, reset * h], 1)))
        return update * h + (1 - update) * new


class UtteranceEncoder(nn.Module):
    def __init__(self, vocab, embed_size, hidden_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.embedding = ZeroPadEmbedding(vocab, embed_size)
        self.cell = GRUCell(embed_size, hidden_size)

    def forward(self, x, lengths):
        batch, turns, words = x.shape
        embedded = self.embedding(x.view(-1, words))
        lengths = lengths.reshape(-1, 1)
        h = embedded.new_zeros(len(embedded), self.hidden_size)
        for t in range(words):
            h = torch.where(t < lengths, self.cell(embedded[:, t], h), h)
        return h.view(batch, turns, -1)


class MultiHeadAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim, eps=1e-8)

    def split(self, x):
        return x.view(x.size(0), x.size(1), self.heads, -1)

    def forward(self, queries, keys, query_mask, key_mask, causal=False):
        q = self.split(F.relu(self.query(queries)))
        k = self.split(F.relu(self.key(keys)))
        v = self.split(F.relu(self.value(keys)))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.size(-1))
        allowed = (key_mask != 0)[:, None, None, :]
        if causal:
            allowed = allowed & torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~allowed, -2 ** 32 + 1)
        weights = scores.softmax(-1) * query_mask[:, None, :, None]
        out = torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(2)
        return self.norm(out + queries)


class FeedForward(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.conv1 = nn.Conv1d(dim, 4 * dim, 1)
        self.conv2 = nn.Conv1d(4 * dim, dim, 1)
        self.norm = nn.LayerNorm(dim, eps=1e-8)

    def forward(self, x):
        out = self.conv2(F.relu(self.conv1(x.transpose(1, 2)))).transpose(1, 2)
        return self.norm(out + x)


class EncoderBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attention = MultiHeadAttention(dim, heads)
        self.ffn = FeedForward(dim)

    def forward(self, x, mask):
        return self.ffn(self.attention(x, x, mask, mask))


class DecoderBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, heads)
        self.context_attention = MultiHeadAttention(dim, heads)
        self.ffn = FeedForward(dim)

    def forward(self, x, mask, context, context_mask):
        x = self.self_attention(x, x, mask, mask, causal=True)
        return self.ffn(self.context_attention(x, context, mask, context_mask))


class Model(nn.Module):
    def __init__(self, vocab=32, dim=16, heads=4, blocks=1, maximum=10):
        super().__init__()
        self.utterance = UtteranceEncoder(vocab, dim // 2, dim)
        self.turn_position = nn.Embedding(maximum, dim)
        self.encoder = nn.ModuleList([EncoderBlock(dim, heads) for _ in range(blocks)])
        self.word_embedding = ZeroPadEmbedding(vocab, dim)
        self.word_position = nn.Embedding(maximum, dim)
        self.decoder = nn.ModuleList([DecoderBlock(dim, heads) for _ in range(blocks)])
        self.output = nn.Linear(dim, vocab)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def forward(self, x, x_length, turns, keep, given):
        utterances = self.utterance(x, x_length)
        enc = utterances + self.turn_position.weight[:x.size(1)]
        enc = enc * keep
        for block in self.encoder:
            enc = block(enc, turns)
        dec = self.word_embedding(given) + self.word_position.weight[:given.size(1)]
        mask = (given != 0).to(enc.dtype)
        for block in self.decoder:
            dec = block(dec, mask, enc, turns)
        return utterances, enc, dec, self.output(dec)


def loss(model, x, x_length, turns, keep, y, istarget):
    y = y.long()
    given = F.pad(y[:, :-1], (1, 0), value=START)
    utterances, enc, dec, logits = model(x.long(), x_length.long(), turns, keep, given)
    ce = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none", label_smoothing=0.1).view_as(istarget)
    total = (ce * istarget).sum() / istarget.sum()
    acc = ((logits.argmax(-1) == y) * istarget).sum() / istarget.sum()
    return total, {"utterances": utterances, "enc": enc, "dec": dec, "logits": logits, "acc": acc}


class Adam(torch.optim.Optimizer):
    """With epsilon beside the root of the uncorrected second moment, as in TensorFlow."""

    def __init__(self, params, lr, betas, eps):
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
                    state.update(step=0, exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
                state["step"] += 1
                state["exp_avg"].lerp_(p.grad, 1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                size = group["lr"] * math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
                p.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt() + group["eps"], value=-size)


def optimizer(model):
    return Adam(model.parameters(), lr=0.002, betas=(0.9, 0.98), eps=1e-8)
