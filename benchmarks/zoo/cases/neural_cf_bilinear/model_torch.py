"""FiBiNET: squeeze-excitation over feature fields and bilinear interactions of their embeddings, beside a linear part."""

from itertools import combinations

import torch
from torch import nn
from torch.nn import functional as F

FIELDS = {"user": 31, "item": 45, "category": 12, "hour": 7, "city": 17, "device": 9}


class SENetLayer(nn.Module):
    def __init__(self, n_fields, reduction=2):
        super().__init__()
        reduced = max(1, n_fields // reduction)
        self.excitation = nn.Sequential(
            nn.Linear(n_fields, reduced, bias=False),
            nn.ReLU(),
            nn.Linear(reduced, n_fields, bias=False),
            nn.ReLU(),
        )

    def forward(self, x):
        return x * self.excitation(x.mean(dim=-1)).unsqueeze(-1)


class BilinearInteraction(nn.Module):
    """Products of all pairs of fields, the first of each pair multiplied by its own matrix."""

    def __init__(self, n_fields, embed_dim):
        super().__init__()
        self.pairs = list(combinations(range(n_fields), 2))
        self.bilinear = nn.ModuleList(nn.Linear(embed_dim, embed_dim, bias=False) for _ in range(n_fields - 1))

    def forward(self, x):
        projected = [layer(x[:, i]) for i, layer in enumerate(self.bilinear)]
        return torch.cat([projected[i] * x[:, j] for i, j in self.pairs], dim=1)


class Model(nn.Module):
    def __init__(self, embed_dim=8, n_dense=4, hidden_units=(26, 14)):
        super().__init__()
        n_fields = len(FIELDS)
        self.embeddings = nn.ModuleDict({name: nn.Embedding(size, embed_dim) for name, size in FIELDS.items()})
        self.linear_embeddings = nn.ModuleDict({name: nn.Embedding(size, 1) for name, size in FIELDS.items()})
        self.linear_dense = nn.Linear(n_dense, 1, bias=False)
        self.senet = SENetLayer(n_fields)
        self.senet_bilinear = BilinearInteraction(n_fields, embed_dim)
        self.bilinear = BilinearInteraction(n_fields, embed_dim)
        width = n_fields * (n_fields - 1) * embed_dim + n_dense
        self.dnn = nn.Sequential(
            nn.Linear(width, hidden_units[0]),
            nn.ReLU(),
            nn.Linear(hidden_units[0], hidden_units[1]),
            nn.ReLU(),
        )
        self.dnn_logit = nn.Linear(hidden_units[1], 1, bias=False)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, ids, dense):
        columns = dict(zip(FIELDS, ids.unbind(dim=1)))
        embedded = torch.stack([table(columns[name]) for name, table in self.embeddings.items()], dim=1)
        wide = sum(table(columns[name]) for name, table in self.linear_embeddings.items()) + self.linear_dense(dense)

        reweighted = self.senet(embedded)
        senet_bilinear = self.senet_bilinear(reweighted)
        bilinear = self.bilinear(embedded)
        deep = self.dnn_logit(self.dnn(torch.cat([senet_bilinear, bilinear, dense], dim=1)))
        logit = (wide + deep + self.bias).squeeze(1)
        l2 = sum(p.square().sum() for name, p in self.named_parameters() if "embeddings" in name)
        return {
            "reweighted": reweighted,
            "senet_bilinear": senet_bilinear,
            "bilinear": bilinear,
            "logit": logit,
            "l2": l2,
        }


def loss(model, ids, dense, labels):
    out = model(ids.long(), dense)
    l2 = out.pop("l2")
    out["log_loss"] = F.binary_cross_entropy_with_logits(out["logit"], labels)
    return out["log_loss"] + 0.5e-3 * l2, out


def optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.02, initial_accumulator_value=0.1, eps=0.0)
