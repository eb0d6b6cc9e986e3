"""ESMM: two towers over shared embeddings, trained on clicks and on clicks that were followed by a purchase."""

import torch
from torch import nn


class BatchNorm1d(nn.BatchNorm1d):
    """Keeps the biased variance of the batch in running_var, as the original does."""

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                var, mean = torch.var_mean(x, dim=0, unbiased=False)
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var, self.momentum)
            return nn.functional.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)
        return super().forward(x)


class RateTower(nn.Module):
    def __init__(self, in_features, hidden=(32, 16)):
        super().__init__()
        self.fc1 = nn.Linear(in_features, hidden[0])
        self.bn1 = BatchNorm1d(hidden[0], eps=1e-3, momentum=0.01)
        self.act1 = nn.PReLU(hidden[0], init=0.1)
        self.fc2 = nn.Linear(hidden[0], hidden[1])
        self.bn2 = BatchNorm1d(hidden[1], eps=1e-3, momentum=0.01)
        self.act2 = nn.PReLU(hidden[1], init=0.1)
        self.out = nn.Linear(hidden[1], 1)

    def forward(self, x):
        x = self.act1(self.bn1(self.fc1(x)))
        x = self.act2(self.bn2(self.fc2(x)))
        return torch.sigmoid(self.out(x)).squeeze(1)


class FeatureEmbedding(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.user = nn.Embedding(120, dim)
        self.tags = nn.EmbeddingBag(30, dim, mode="mean", padding_idx=0)
        self.item = nn.Embedding(200, dim)
        self.category = nn.Embedding(12, dim)
        for table in self.children():
            nn.init.trunc_normal_(table.weight, std=dim ** -0.5)

    def forward(self, user, tags, item, category, price):
        parts = [self.user(user), self.tags(tags), self.item(item), self.category(category)]
        return torch.cat(parts + [torch.log1p(price).unsqueeze(1)], dim=1)

    def l2(self):
        return 0.5 * sum(table.weight.pow(2).sum() for table in self.children())


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = FeatureEmbedding()
        self.ctr = RateTower(4 * 8 + 1)
        self.cvr = RateTower(4 * 8 + 1)

    def forward(self, user, tags, item, category, price):
        features = self.embedding(user, tags, item, category, price)
        p_ctr = self.ctr(features)
        p_cvr = self.cvr(features)
        return features, p_ctr, p_cvr, p_ctr * p_cvr, self.embedding.l2()


def log_loss(predictions, labels, eps=1e-7):
    losses = -labels * torch.log(predictions + eps) - (1 - labels) * torch.log(1 - predictions + eps)
    return losses.mean()


def loss(model, user, tags, item, category, price, click, purchase):
    features, p_ctr, p_cvr, p_ctcvr, l2 = model(user.long(), tags.long(), item.long(), category.long(), price)
    ctr_loss = log_loss(p_ctr, click)
    ctcvr_loss = log_loss(p_ctcvr, click * purchase)
    total = ctr_loss + ctcvr_loss + 1e-3 * l2
    return total, {"features": features, "p_ctr": p_ctr, "p_cvr": p_cvr, "p_ctcvr": p_ctcvr,
                   "ctr_loss": ctr_loss, "ctcvr_loss": ctcvr_loss}


def optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.05, initial_accumulator_value=0.1, eps=0.0)
