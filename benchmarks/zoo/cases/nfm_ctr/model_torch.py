"""Neural factorisation machine for click prediction."""

import torch
from torch import nn
from torch.nn import functional as F

from data import FIELDS


class BiInteraction(nn.Module):
    """All pairwise products of the embeddings, summed: half of (sum squared less sum of squares)."""

    def forward(self, x):
        square_of_sum = x.sum(dim=1).square()
        sum_of_square = x.square().sum(dim=1)
        return 0.5 * (square_of_sum - sum_of_square)


class FeatureNorm(nn.BatchNorm1d):
    """BatchNorm1d whose running variance takes the variance of the batch without Bessel's correction."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            self.running_mean += self.momentum * (x.mean(0) - self.running_mean)
            self.running_var += self.momentum * (x.var(0, unbiased=False) - self.running_var)
        return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)


class Model(nn.Module):
    def __init__(self, factors=12, hidden=(20, 10)):
        super().__init__()
        total = sum(FIELDS)
        starts = [sum(FIELDS[:i]) for i in range(len(FIELDS))]
        self.register_buffer("offsets", torch.tensor(starts), persistent=False)
        self.factors = nn.Embedding(total, factors)
        self.first_order = nn.Embedding(total, 1)
        self.intercept = nn.Parameter(torch.zeros(()))
        self.interaction = BiInteraction()
        self.norm = FeatureNorm(factors, eps=1e-3, momentum=0.1)
        self.fc1 = nn.Linear(factors, hidden[0])
        self.fc2 = nn.Linear(hidden[0], hidden[1])
        self.score = nn.Linear(hidden[1], 1, bias=False)
        nn.init.normal_(self.factors.weight, std=0.1)
        nn.init.uniform_(self.first_order.weight, 0.0, 0.05)

    def forward(self, ids, values, keep_fm, keep_deep):
        rows = ids + self.offsets
        values = values.unsqueeze(-1)
        pooled = self.interaction(self.factors(rows) * values)
        x = self.norm(pooled)
        if self.training:
            x = x * keep_fm
        x = F.relu(self.fc1(x))
        if self.training:
            x = x * keep_deep
        x = F.relu(self.fc2(x))
        linear = (self.first_order(rows) * values).sum(dim=1)
        return {"pooled": pooled, "linear": linear, "out": self.score(x) + linear + self.intercept}


def loss(model, ids, values, labels, keep_fm, keep_deep):
    outputs = model(ids.long(), values, keep_fm, keep_deep)
    table = getattr(model, "module", model).factors.weight
    squared_error = 0.5 * F.mse_loss(outputs["out"], labels, reduction="sum")
    return squared_error + 0.02 * 0.5 * table.square().sum(), outputs


def optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.05, initial_accumulator_value=1e-3, eps=0.0)
