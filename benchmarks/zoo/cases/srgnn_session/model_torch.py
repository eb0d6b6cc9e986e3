import math

import torch
from torch import nn
from torch.nn import functional as F

N_ITEMS = 41  # with 0 for padding
L2 = 1e-3
LEARNING_RATE, DECAY, DECAY_EVERY = 0.004, 0.5, 2


class GraphStep(nn.Module):
    """Messages along in- and outgoing edges, then a gated update whose reset gate acts on the state before the product."""

    def __init__(self, dim):
        super().__init__()
        self.incoming = nn.Linear(dim, dim)
        self.outgoing = nn.Linear(dim, dim)
        self.gates = nn.Linear(3 * dim, 2 * dim)
        self.candidate = nn.Linear(3 * dim, dim)

    def forward(self, h, adj_in, adj_out):
        message = torch.cat([adj_in @ self.incoming(h), adj_out @ self.outgoing(h)], dim=-1)
        reset, update = torch.sigmoid(self.gates(torch.cat([message, h], dim=-1))).chunk(2, dim=-1)
        proposal = torch.tanh(self.candidate(torch.cat([message, reset * h], dim=-1)))
        return update * h + (1 - update) * proposal


class SessionReadout(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query = nn.Linear(dim, dim, bias=False)
        self.key = nn.Linear(dim, dim)
        self.score = nn.Linear(dim, 1, bias=False)
        self.project = nn.Linear(2 * dim, dim, bias=False)

    def forward(self, nodes, alias, mask):
        clicks = nodes.gather(1, alias.unsqueeze(-1).expand(-1, -1, nodes.size(-1)))
        last = mask.sum(1).long() - 1
        query = self.query(clicks[torch.arange(len(clicks)), last])
        weights = self.score(torch.sigmoid(query.unsqueeze(1) + self.key(clicks)))
        weights = weights * mask.unsqueeze(-1)
        pooled = (weights * clicks).sum(1)
        return self.project(torch.cat([pooled, query], dim=-1))


class Model(nn.Module):
    def __init__(self, dim=16, steps=2):
        super().__init__()
        self.steps = steps
        self.embedding = nn.Embedding(N_ITEMS, dim)
        self.graph = GraphStep(dim)
        self.readout = SessionReadout(dim)
        for p in self.parameters():
            nn.init.uniform_(p, -1 / math.sqrt(dim), 1 / math.sqrt(dim))

    def forward(self, items, adj_in, adj_out, alias, mask):
        nodes = self.embedding(items)
        for _ in range(self.steps):
            nodes = self.graph(nodes, adj_in, adj_out)
        session = self.readout(nodes, alias, mask)
        return nodes, session @ self.embedding.weight[1:].t()


def loss(model, item, adj_in, adj_out, alias, mask, tar):
    nodes, logits = model(item.long(), adj_in, adj_out, alias.long(), mask)
    wanted = tar.long() - 1
    penalty = sum(p.square().sum() for p in model.parameters()) / 2
    value = F.cross_entropy(logits, wanted) + L2 * penalty
    hit = (logits.topk(5, dim=1).indices == wanted.unsqueeze(1)).any(1)
    return value, {"nodes": nodes, "logits": logits, "recall": hit.to(logits.dtype).mean()}


def rate(step):
    return LEARNING_RATE * DECAY ** (step // DECAY_EVERY)
