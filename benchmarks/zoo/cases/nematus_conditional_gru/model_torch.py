import torch
from torch import nn
from torch.nn import functional as F

LEARNING_RATE, PEAK, WARM_UP = 0.001, 0.005, 4


class GRUCell(nn.Module):
    """One bias per gate; the reset gate acts on what the recurrent matrix makes of the state."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.x_gates = nn.Linear(input_size, 2 * hidden_size)
        self.h_gates = nn.Linear(hidden_size, 2 * hidden_size, bias=False)
        self.x_candidate = nn.Linear(input_size, hidden_size)
        self.h_candidate = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, x, h):
        reset, update = torch.sigmoid(self.x_gates(x) + self.h_gates(h)).chunk(2, dim=-1)
        candidate = torch.tanh(self.x_candidate(x) + reset * self.h_candidate(h))
        return torch.lerp(candidate, h, update)


class BiGRUEncoder(nn.Module):
    def __init__(self, vocab, emb, hidden):
        super().__init__()
        self.hidden = hidden
        self.emb = nn.Embedding(vocab, emb)
        self.left_to_right = GRUCell(emb, hidden)
        self.right_to_left = GRUCell(emb, hidden)

    def scan(self, cell, words, mask, order):
        h = words.new_zeros(words.size(1), self.hidden)
        states = [None] * len(words)
        for t in order:
            h = torch.where(mask[t].bool().unsqueeze(-1), cell(words[t], h), h)
            states[t] = h
        return torch.stack(states)

    def forward(self, x, mask):
        words = self.emb(x)
        steps = range(len(words))
        return torch.cat([self.scan(self.left_to_right, words, mask, steps),
                          self.scan(self.right_to_left, words, mask, reversed(steps))], dim=-1)


class MLPAttention(nn.Module):
    def __init__(self, ctx_dim, hid_dim, att_dim):
        super().__init__()
        self.ctx2att = nn.Linear(ctx_dim, att_dim)
        self.hid2att = nn.Linear(hid_dim, att_dim, bias=False)
        self.mlp = nn.Linear(att_dim, 1, bias=False)

    def forward(self, hid, ctx, keys, mask):
        scores = self.mlp(torch.tanh(keys + self.hid2att(hid))).squeeze(-1)
        alpha = F.softmax(scores.masked_fill(mask == 0, float("-inf")), dim=0)
        return torch.einsum("sb,sbd->bd", alpha, ctx)


class ConditionalDecoder(nn.Module):
    def __init__(self, vocab, emb, hidden, att_dim):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.ff_dec_init = nn.Linear(2 * hidden, hidden)
        self.dec0 = GRUCell(emb, hidden)
        self.att = MLPAttention(2 * hidden, hidden, att_dim)
        self.dec1 = GRUCell(2 * hidden, hidden)
        self.emb2out = nn.Linear(emb, emb)
        self.hid2out = nn.Linear(hidden, emb)
        self.ctx2out = nn.Linear(2 * hidden, emb)
        self.out2prob = nn.Linear(emb, vocab)
        self.out2prob.weight = self.emb.weight

    def forward(self, ctx, mask, y):
        mean = (ctx * mask.unsqueeze(-1)).sum(0) / mask.sum(0).unsqueeze(-1)
        h = torch.tanh(self.ff_dec_init(mean))
        previous = F.pad(self.emb(y)[:-1], (0, 0, 0, 0, 1, 0))
        keys = self.att.ctx2att(ctx)
        states, attended = [], []
        for word in previous:
            h = self.dec0(word, h)
            z = self.att(h, ctx, keys, mask)
            h = self.dec1(z, h)
            states.append(h)
            attended.append(z)
        states, attended = torch.stack(states), torch.stack(attended)
        out = torch.tanh(self.emb2out(previous) + self.hid2out(states) + self.ctx2out(attended))
        return states, self.out2prob(out)


class Model(nn.Module):
    def __init__(self, source=41, target=37, emb=16, hidden=18, att_dim=14):
        super().__init__()
        self.enc = BiGRUEncoder(source, emb, hidden)
        self.dec = ConditionalDecoder(target, emb, hidden, att_dim)
        for name, p in self.named_parameters():
            if p.dim() > 1 and "h_" in name:
                nn.init.orthogonal_(p)
            elif p.dim() > 1:
                nn.init.normal_(p, std=0.1)
            else:
                nn.init.zeros_(p)

    def forward(self, x, x_mask, y):
        ctx = self.enc(x, x_mask)
        states, logits = self.dec(ctx, x_mask, y)
        return ctx, states, logits


def loss(model, x, x_mask, y, y_mask):
    x, x_mask, y, y_mask = (t.t() for t in (x.long(), x_mask, y.long(), y_mask))
    ctx, states, logits = model(x, x_mask, y)
    cost = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none", label_smoothing=0.1).view_as(y_mask)
    value = (cost * y_mask).sum(0).mean()
    outputs = {"context": ctx, "states": states, "logits": logits}
    return value, {name: out.transpose(0, 1) for name, out in outputs.items()}


def rate(step):
    """Warms up linearly."""
    return LEARNING_RATE + (PEAK - LEARNING_RATE) * min(step, WARM_UP) / WARM_UP
