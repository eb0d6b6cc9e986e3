"""DLRM with weighted embedding bags and dot interactions."""

import torch
from torch import nn
from torch.nn import functional as F


class DotInteraction(nn.Module):
    """The dense vector, followed by the products of all pairs of vectors."""

    def forward(self, dense, bags):
        features = torch.stack([dense] + bags, dim=1)
        products = torch.bmm(features, features.transpose(1, 2))
        rows, columns = torch.tril_indices(features.size(1), features.size(1), offset=-1, device=dense.device)
        return torch.cat([dense, products[:, rows, columns]], dim=1)


class Model(nn.Module):
    def __init__(self, num_dense=7, table_sizes=(100, 60, 150), dim=12):
        super().__init__()
        self.bottom_mlp = nn.Sequential(nn.Linear(num_dense, 24), nn.ReLU(), nn.Linear(24, dim), nn.ReLU())
        self.embedding_bags = nn.ModuleList(nn.EmbeddingBag(size, dim, mode="sum") for size in table_sizes)
        self.interaction = DotInteraction()
        vectors = len(table_sizes) + 1
        in_features = dim + vectors * (vectors - 1) // 2
        self.top_mlp = nn.Sequential(
            nn.Linear(in_features, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, counts, ids, weights):
        bottom = self.bottom_mlp(torch.log1p(counts))
        bags = []
        for i, table in enumerate(self.embedding_bags):
            bags.append(table(ids[:, i], per_sample_weights=weights[:, i]))
        interactions = self.interaction(bottom, bags)
        return bottom, interactions, self.top_mlp(interactions).squeeze(1)


def loss(model, counts, ids, weights, click):
    bottom, interactions, logit = model(counts, ids.long(), weights)
    losses = F.binary_cross_entropy_with_logits(logit, click, reduction="none")
    class_weight = torch.where(click > 0.5, 2.5, 1.0).to(losses.dtype)
    total = (class_weight * losses).mean()
    accuracy = ((logit > 0).to(click.dtype) == click).to(click.dtype).mean()
    return total, {"bottom": bottom, "interactions": interactions, "logit": logit, "accuracy": accuracy}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.02)


def scheduler(optimizer, decay_steps=12):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1.0 - step / decay_steps) ** 2)
