"""Bidirectional attention flow in PyTorch."""

import torch
from torch import nn
from torch.nn import functional as F


def masked(scores, mask):
    return scores.masked_fill(~mask, -1e30)


class Highway(nn.Module):
    def __init__(self, size, num_layers=2):
        super().__init__()
        self.linears = nn.ModuleList(nn.Linear(size, size) for _ in range(num_layers))
        self.gates = nn.ModuleList(nn.Linear(size, size) for _ in range(num_layers))

    def forward(self, x):
        for linear, gate in zip(self.linears, self.gates):
            g = torch.sigmoid(gate(x))
            x = g * F.relu(linear(x)) + (1 - g) * x
        return x


class AttentionFlow(nn.Module):
    """The similarity is linear in context, question and their product, without building the [N, T, J, 3d] tensor."""

    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3 * size) * 0.2)

    def forward(self, c, q, c_mask, q_mask):
        w_c, w_q, w_cq = self.weight.chunk(3)
        s = (c @ w_c).unsqueeze(2) + (q @ w_q).unsqueeze(1) + (c * w_cq) @ q.transpose(1, 2)
        s = masked(s, c_mask.unsqueeze(2) & q_mask.unsqueeze(1))
        c2q = F.softmax(s, dim=2) @ q
        b = F.softmax(s.max(dim=2).values, dim=1)
        q2c = torch.bmm(b.unsqueeze(1), c).expand(-1, c.size(1), -1)
        return torch.cat([c, c2q, c * c2q, c * q2c], dim=2), c2q, q2c


class Model(nn.Module):
    def __init__(self, vocab_size=60, embed_size=16, hidden_size=24):
        super().__init__()
        self.word_emb = nn.Embedding(vocab_size, embed_size)
        self.highway_net = Highway(embed_size)
        self.att_flow = AttentionFlow(embed_size)
        self.modeling = nn.Linear(4 * embed_size, hidden_size)
        self.p1 = nn.Linear(hidden_size + 4 * embed_size, 1)
        self.output_hidden = nn.Linear(4 * embed_size + 3 * hidden_size, hidden_size)
        self.p2 = nn.Linear(hidden_size + 4 * embed_size, 1)

    def forward(self, context, question):
        c_mask, q_mask = context != 0, question != 0
        c = self.highway_net(self.word_emb(context))
        q = self.highway_net(self.word_emb(question))
        g, c2q, q2c = self.att_flow(c, q, c_mask, q_mask)
        m = torch.tanh(self.modeling(g))
        p1 = masked(self.p1(torch.cat([m, g], 2)).squeeze(2), c_mask)
        yp = p1.softmax(1)
        a = torch.einsum("nt,ntd->nd", yp, m).unsqueeze(1).expand_as(m)
        m2 = torch.tanh(self.output_hidden(torch.cat([g, m, a, m * a], 2)))
        p2 = masked(self.p2(torch.cat([m2, g], 2)).squeeze(2), c_mask)
        return p1, p2, {"h": c, "u": q, "u_a": c2q, "h_a": q2c, "g1": m, "yp": yp, "yp2": p2.softmax(1)}


def loss(model, x, q, y, y2):
    p1, p2, out = model(x.long(), q.long())
    start = F.cross_entropy(p1, y.argmax(1))
    end = F.cross_entropy(p2, y2.argmax(1))
    return start + end, {**out, "start": start}


def optimizer(model):
    return torch.optim.Adadelta(model.parameters(), lr=0.5, rho=0.95, eps=1e-8)
