import torch
from torch import nn
import torch.nn.functional as F

NUM_USERS, NUM_ITEMS = 37, 53
L2 = 0.02


class GMF(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.user = nn.Embedding(NUM_USERS, dim)
        self.item = nn.Embedding(NUM_ITEMS, dim)

    def forward(self, users, items):
        user, item = self.user(users), self.item(items)
        return user * item, (user, item)


class MLP(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.user = nn.Embedding(NUM_USERS, dim)
        self.item = nn.Embedding(NUM_ITEMS, dim)
        widths = [2 * dim, *hidden]
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in zip(widths, hidden))

    def forward(self, users, items):
        user, item = self.user(users), self.item(items)
        x = torch.cat([user, item], dim=-1)
        for layer in self.layers:
            x = F.relu(layer(x))
        return x, (user, item)


class Model(nn.Module):
    def __init__(self, factors=8, mlp_dim=12, hidden=(18, 10)):
        super().__init__()
        self.gmf = GMF(factors)
        self.mlp = MLP(mlp_dim, hidden)
        self.item_bias = nn.Embedding(NUM_ITEMS, 1)
        self.head = nn.Linear(factors + hidden[-1], 1)

    def forward(self, users, items):
        gmf, gmf_latent = self.gmf(users, items)
        mlp, mlp_latent = self.mlp(users, items)
        logits = self.head(torch.cat([gmf, mlp], dim=-1)) + self.item_bias(items)
        return gmf, mlp, logits.squeeze(-1), (*gmf_latent, *mlp_latent)


def loss(model, users, items, negatives, confidence):
    candidates = torch.cat([items.unsqueeze(1), negatives], dim=1)
    user = users.repeat_interleave(candidates.size(1))
    gmf, mlp, logits, latent = model(user, candidates.flatten())

    logits = logits.view_as(candidates)
    labels = torch.zeros_like(logits)
    labels[:, 0] = 1
    bce = F.binary_cross_entropy_with_logits(logits, labels, weight=confidence, reduction="sum")
    bce = bce / confidence.count_nonzero()
    penalty = sum(x.square().sum() for x in latent) / 2
    total = bce + L2 * penalty / candidates.numel()
    return total, {"gmf": gmf, "mlp": mlp, "logits": logits}


def optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.05, initial_accumulator_value=0.1, eps=0.0)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.8)
