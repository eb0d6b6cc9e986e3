"""FiBiNET in torch: SENet over feature fields and field-wise bilinear interactions."""

from itertools import combinations

import torch
from torch import nn
from torch.nn import functional as F

FIELD_SIZES = (20, 12, 30, 8, 15, 10)


class SqueezeExcitation(nn.Module):
    def __init__(self, num_fields, reduction):
        super().__init__()
        self.squeeze = nn.Linear(num_fields, num_fields // reduction, bias=False)
        self.excite = nn.Linear(num_fields // reduction, num_fields, bias=False)

    def forward(self, x):
        summary = x.mean(dim=2)
        gates = torch.sigmoid(self.excite(F.relu(self.squeeze(summary))))
        return x * gates.unsqueeze(-1), gates


class BilinearInteraction(nn.Module):
    """One matrix for each field that comes first in a pair."""

    def __init__(self, num_fields, dim):
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(dim, dim, bias=False) for _ in range(num_fields - 1))

    def forward(self, x):
        fields = x.unbind(dim=1)
        products = [self.maps[i](fields[i]) * fields[j] for i, j in combinations(range(len(fields)), 2)]
        return torch.cat(products, dim=1)


class Model(nn.Module):
    def __init__(self, dim=6, reduction=2, hidden=(32, 16), num_counters=3):
        super().__init__()
        n = len(FIELD_SIZES)
        self.embeddings = nn.ModuleList(nn.Embedding(size, dim) for size in FIELD_SIZES)
        self.wide = nn.ModuleList(nn.Embedding(size, 1) for size in FIELD_SIZES)
        self.wide_counters = nn.Linear(num_counters, 1)
        self.senet = SqueezeExcitation(n, reduction)
        self.weighted_pairs = BilinearInteraction(n, dim)
        self.plain_pairs = BilinearInteraction(n, dim)
        width = n * (n - 1) * dim + num_counters
        self.mlp = nn.Sequential(
            nn.Linear(width, hidden[0]), nn.ReLU(),
            nn.Linear(hidden[0], hidden[1]), nn.ReLU(),
            nn.Linear(hidden[1], 1, bias=False),
        )

    def forward(self, ids, counters):
        columns = ids.unbind(dim=1)
        x = torch.stack([table(column) for table, column in zip(self.embeddings, columns)], dim=1)
        counters = torch.log1p(counters)
        wide = sum(table(column) for table, column in zip(self.wide, columns)) + self.wide_counters(counters)
        weighted, gates = self.senet(x)
        deep = self.mlp(torch.cat([self.weighted_pairs(weighted), self.plain_pairs(x), counters], dim=1))
        return (wide + deep).squeeze(1), gates


def loss(model, ids, counters, clicks):
    logit, gates = model(ids.long(), counters)
    cross_entropy = F.binary_cross_entropy_with_logits(logit, clicks)
    tables = [p for name, p in model.named_parameters() if "embeddings" in name]
    penalty = 1e-3 * sum(table.pow(2).sum() for table in tables)
    return cross_entropy + penalty, {"attention": gates, "logit": logit, "cross_entropy": cross_entropy}


def optimizer(model):
    # the original's accumulators begin at 0.1, and it has no epsilon
    return torch.optim.Adagrad(model.parameters(), lr=0.05, initial_accumulator_value=0.1, eps=0.0)
