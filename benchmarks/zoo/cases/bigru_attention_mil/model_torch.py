"""Attention-based deep MIL (gated) over GRU features of the instances; instances behind a bag's size are never encoded."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence


class InstanceEncoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_size):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.gru = nn.GRU(embedding_dim, hidden_size, batch_first=True, bidirectional=True)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.embedding(tokens), lengths.cpu(), batch_first=True, enforce_sorted=False)
        _, last = self.gru(packed)
        return torch.cat([last[0], last[1]], dim=1)


class GatedAttention(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.attention_v = nn.Linear(dim, hidden)
        self.attention_u = nn.Linear(dim, hidden)
        self.attention_weights = nn.Linear(hidden, 1)

    def forward(self, h, present):
        gated = torch.tanh(self.attention_v(h)) * torch.sigmoid(self.attention_u(h))
        a = self.attention_weights(gated).squeeze(-1)
        a = a.masked_fill(~present, float("-inf"))
        a = F.softmax(a, dim=1)
        return torch.einsum("bm,bmd->bd", a, h), a


class Model(nn.Module):
    def __init__(self, vocab_size=40, embedding_dim=6, hidden_size=8, attention_size=10):
        super().__init__()
        self.encoder = InstanceEncoder(vocab_size, embedding_dim, hidden_size)
        self.pool = GatedAttention(2 * hidden_size, attention_size)
        self.head = nn.Linear(2 * hidden_size, 1)
        self.feature_size = 2 * hidden_size

    def forward(self, tokens, lengths, bag_sizes):
        present = torch.arange(tokens.size(1), device=tokens.device) < bag_sizes.unsqueeze(1)
        encoded = self.encoder(tokens[present], lengths[present])
        h = encoded.new_zeros(*present.shape, self.feature_size)
        h[present] = encoded
        bag, a = self.pool(h, present)
        return {"features": h, "alphas": a, "bag": bag, "logits": self.head(bag).squeeze(1)}


def loss(model, tokens, lengths, bag_sizes, labels):
    out = model(tokens.long(), lengths.long(), bag_sizes.long())
    return F.binary_cross_entropy_with_logits(out["logits"], labels, pos_weight=labels.new_tensor(2.5)), out


def clip_by_global_norm(parameters, limit):
    """As tf.clip_by_global_norm: exactly to the limit, nothing is added to the norm."""
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in grads]))
    for g in grads:
        g.mul_(limit / torch.clamp(norm, min=limit))
    return norm


def step(model, optimizer, scheduler, tokens, lengths, bag_sizes, labels):
    optimizer.zero_grad()
    total, out = loss(model, tokens, lengths, bag_sizes, labels)
    total.backward()
    clip_by_global_norm(list(model.parameters()), 0.2)
    optimizer.step()
    scheduler.step()
    return total, out


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 / (1.0 + 0.5 * step / 2))
