"""Deep Crossing for click prediction."""

import torch
from torch import nn
from torch.nn import functional as F


class ResidualUnit(nn.Module):
    def __init__(self, dim, width):
        super().__init__()
        self.inner = nn.Linear(dim, width)
        self.outer = nn.Linear(width, dim)

    def forward(self, x):
        return F.relu(self.outer(F.relu(self.inner(x))) + x)


class Model(nn.Module):
    def __init__(self, n_users=40, n_items=30, n_positions=5, widths=(24, 16)):
        super().__init__()
        self.n_positions = n_positions
        self.user_embedding = nn.Embedding(n_users, 8)
        self.item_embedding = nn.Embedding(n_items, 6)
        self.user_layer = nn.Linear(8, 8)
        self.item_layer = nn.Linear(6, 6)
        self.history_layer = nn.Linear(6, 6)
        dim = 8 + 6 + 6 + n_positions + 2
        self.units = nn.Sequential(*(ResidualUnit(dim, width) for width in widths))
        self.score = nn.Linear(dim, 1)

    def forward(self, user, item, position, history, counters):
        users = self.user_embedding(user)
        items = self.item_embedding(item)
        # item 0 stands for nothing, and is left out of the mean
        clicked_before = F.embedding_bag(history, self.item_embedding.weight, mode="mean", padding_idx=0)
        slot = F.one_hot(position, self.n_positions).to(counters.dtype)
        embedded = [
            F.relu(self.user_layer(users)),
            F.relu(self.item_layer(items)),
            F.relu(self.history_layer(clicked_before)),
        ]
        stacked = torch.cat([*embedded, slot, torch.log1p(counters)], dim=1)
        return users, items, stacked, self.score(self.units(stacked)).squeeze(1)


def loss(model, user, item, position, history, counters, clicked, weights):
    users, items, stacked, logit = model(user.long(), item.long(), position.long(), history.long(), counters)
    bce = F.binary_cross_entropy_with_logits(logit, clicked, weight=weights, reduction="sum")
    bce = bce / (weights != 0).sum()
    penalty = 0.5 * (users.square().sum() + items.square().sum()) / len(users)
    return bce + 1e-2 * penalty, {"stacked": stacked, "logit": logit, "log_loss": bce}


def optimizer(model):
    # TensorFlow's Adagrad begins at 0.1 and has no epsilon
    return torch.optim.Adagrad(model.parameters(), lr=0.02, initial_accumulator_value=0.1, eps=0.0)
