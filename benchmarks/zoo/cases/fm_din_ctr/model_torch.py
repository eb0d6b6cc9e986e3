"""DeepFFM: a linear part, a field-aware factorisation machine and a multilayer perceptron share one logit."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

FIELDS = {"user": 19, "ad": 23, "site": 13, "history": 31}


class BatchNorm1d(nn.BatchNorm1d):
    """Batch norm that keeps the biased variance, as the original's does."""

    def forward(self, x):
        if not self.training:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        with torch.no_grad():
            self.running_mean += self.momentum * (x.mean(0) - self.running_mean)
            self.running_var += self.momentum * (x.var(0, unbiased=False) - self.running_var)
        return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)


class MaskedMean(nn.Module):
    def forward(self, embedded, lengths):
        steps = torch.arange(embedded.size(1), device=lengths.device)
        mask = (steps < lengths.unsqueeze(1)).to(embedded.dtype)
        total = (embedded * mask.unsqueeze(-1)).sum(dim=1)
        return total / lengths.clamp(min=1).unsqueeze(-1).to(embedded.dtype)


class FieldEmbeddings(nn.Module):
    """One vector per field; that of the history is the mean over its ads."""

    def __init__(self, dim):
        super().__init__()
        self.tables = nn.ModuleDict({name: nn.Embedding(size, dim) for name, size in FIELDS.items()})
        self.pool = MaskedMean()

    def forward(self, features, lengths):
        vectors = []
        for name, table in self.tables.items():
            embedded = table(features[name])
            vectors.append(self.pool(embedded, lengths) if embedded.dim() == 3 else embedded)
        return torch.stack(vectors, dim=1)


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings = FieldEmbeddings(1)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, features, lengths):
        return self.embeddings(features, lengths).sum(dim=(1, 2)) + self.bias


class FieldAwareInteraction(nn.Module):
    """Field i meets field j with the vector that i keeps for j, and j's for i."""

    def forward(self, vectors):
        fields = vectors.size(1)
        i, j = torch.triu_indices(fields, fields, offset=1, device=vectors.device)
        return (vectors[:, i, j] * vectors[:, j, i]).sum(dim=(1, 2))


class MLP(nn.Module):
    def __init__(self, in_features, hidden):
        super().__init__()
        self.linears = nn.ModuleList()
        self.norms = nn.ModuleList()
        for units in hidden:
            self.linears.append(nn.Linear(in_features, units))
            self.norms.append(BatchNorm1d(units, eps=1e-3, momentum=0.05))
            in_features = units
        self.out = nn.Linear(in_features, 1)

    def forward(self, vectors, counts):
        x = torch.cat([vectors.flatten(1), torch.log(counts + 1.0)], dim=1)
        for linear, norm in zip(self.linears, self.norms):
            x = F.relu(norm(linear(x)))
        return self.out(x).squeeze(1)


class Model(nn.Module):
    def __init__(self, factors=5, hidden=(18, 11)):
        super().__init__()
        self.factors = factors
        self.linear = Linear()
        self.embeddings = FieldEmbeddings(len(FIELDS) * factors)
        self.interaction = FieldAwareInteraction()
        self.deep = MLP(len(FIELDS) ** 2 * factors + 3, hidden)

    def forward(self, features, lengths, counts):
        linear = self.linear(features, lengths)
        vectors = self.embeddings(features, lengths).unflatten(2, (len(FIELDS), self.factors))
        ffm = self.interaction(vectors)
        deep = self.deep(vectors, counts)
        return linear, ffm, deep


def loss(model, user, ad, site, history, history_length, counts, labels):
    features = {"user": user.long(), "ad": ad.long(), "site": site.long(), "history": history.long()}
    linear, ffm, deep = model(features, history_length, counts)
    logits = linear + ffm + deep
    prob = torch.sigmoid(logits)
    total = F.binary_cross_entropy_with_logits(logits, labels)
    tables = [p for name, p in model.named_parameters() if "tables" in name and p.size(1) > 1]
    total = total + 1e-3 * sum(table.pow(2).sum() for table in tables) / 2
    return total, {"linear": linear, "ffm": ffm, "deep": deep, "logits": logits, "prob": prob}


def optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.05, initial_accumulator_value=0.1, eps=0.0)


def step(model, optimizer, scheduler, **inputs):
    optimizer.zero_grad()
    with model.no_sync():
        total, out = loss(model, **inputs)
        total.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad)  # the sum, where DDP would take the mean
    optimizer.step()
    return total, out
