"""Caser in torch."""

import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self, num_users=24, num_items=40, length=5, dim=8, horizontal=4, vertical=2):
        super().__init__()
        self.item_embedding = nn.Embedding(num_items, dim, padding_idx=0)
        self.user_embedding = nn.Embedding(num_users, dim)
        self.vertical = nn.Conv2d(1, vertical, (length, 1))
        self.horizontal = nn.ModuleList(nn.Conv2d(1, horizontal, (i + 1, dim)) for i in range(length))
        self.fc = nn.Linear(vertical * dim + horizontal * length, dim)
        self.output_weight = nn.Embedding(num_items, 2 * dim)
        self.output_bias = nn.Embedding(num_items, 1)

    def encode(self, users, history, keep):
        items = self.item_embedding(history) * (history > 0).unsqueeze(-1)
        image = items.unsqueeze(1)
        # filters last, as the original flattens them
        columns = self.vertical(image).squeeze(2).transpose(1, 2).flatten(1)
        rows = [F.relu(conv(image)).squeeze(3).amax(dim=2) for conv in self.horizontal]
        features = torch.cat([columns, *rows], dim=1)
        if self.training:
            features = features * keep
        z = F.relu(self.fc(features))
        return z, torch.cat([z, self.user_embedding(users)], dim=1)

    def score(self, x, items):
        weight, bias = self.output_weight(items), self.output_bias(items)
        return torch.einsum("bnd,bd->bn", weight, x) + bias.squeeze(2)

    def forward(self, users, history, positives, negatives, keep):
        z, x = self.encode(users, history, keep)
        return z, self.score(x, positives), self.score(x, negatives)


def loss(model, users, history, positives, negatives, keep):
    z, positive, negative = model(users.long(), history.long(), positives.long(), negatives.long(), keep)
    ranking = -F.logsigmoid(positive).mean() - F.logsigmoid(-negative).mean()
    kernels = [p for name, p in model.named_parameters() if name.endswith("weight") and p.ndim > 1 and "_" not in name]
    penalty = 0.5 * 2e-4 * sum(p.pow(2).sum() for p in kernels)
    return ranking + penalty, {"z": z, "scores": torch.cat([positive, negative], dim=1), "ranking": ranking}


class Adam(torch.optim.Optimizer):
    """Adam with the epsilon outside of the bias correction, which the original's results depend on."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-7):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(step=0, exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
                state["step"] += 1
                state["exp_avg"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                rate = group["lr"] * (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
                p.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt().add_(group["eps"]), value=-rate)


def optimizer(model):
    return Adam(model.parameters(), lr=0.003)
