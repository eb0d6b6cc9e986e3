import torch
from torch import nn
from torch.nn import functional as F

FEATURES, FIELDS = 35, 6
L2_EMB = 1e-3


class BatchNorm1d(nn.BatchNorm1d):
    """Takes the factor n / (n - 1) out of what torch puts into the running variance."""

    def __init__(self, channels):
        super().__init__(channels, eps=1e-3, momentum=0.05)

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        mean, var = self.running_mean.clone(), self.running_var.clone()
        out = F.batch_norm(x, mean, var, self.weight, self.bias, True, self.momentum, self.eps)
        n = x.numel() // x.size(1)
        kept = self.running_var * (1 - self.momentum)
        self.running_mean.copy_(mean)
        self.running_var.copy_(kept + (var - kept) * (n - 1) / n)
        return out


class FeatureEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.table = nn.Embedding(FEATURES, dim)
        nn.init.normal_(self.table.weight, std=0.5)

    def forward(self, index, value):
        return self.table(index) * value[..., None]


class LogTransformLayer(nn.Module):
    """Products of the fields to learnt powers, for each dimension of the embedding."""

    def __init__(self, dim, neurons):
        super().__init__()
        self.powers = nn.Linear(FIELDS, neurons)
        nn.init.normal_(self.powers.weight, std=0.1)
        nn.init.zeros_(self.powers.bias)
        self.bn = nn.ModuleList([BatchNorm1d(dim), BatchNorm1d(dim)])

    def forward(self, x):
        x = x.abs().clamp_min(1e-2).log().transpose(1, 2)
        x = self.bn[0](x)
        x = self.powers(x).exp()
        return self.bn[1](x)


def mlp(sizes):
    layers = []
    for before, size in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(before, size), nn.ReLU(inplace=True), BatchNorm1d(size)]
    layers.append(nn.Linear(sizes[-1], 1))
    return nn.Sequential(*layers)


class Model(nn.Module):
    def __init__(self, dim=5, neurons=14):
        super().__init__()
        self.afn_embedding = FeatureEmbedding(dim)
        self.log_layer = LogTransformLayer(dim, neurons)
        self.afn = mlp((dim * neurons, 20, 12))
        self.nn_embedding = FeatureEmbedding(dim)
        self.nn = mlp((FIELDS * dim, 16, 8))
        self.mix = nn.ParameterDict({"afn": nn.Parameter(torch.full((1,), 0.5)), "nn": nn.Parameter(torch.full((1,), 0.5))})
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, index, value):
        cross = self.log_layer(self.afn_embedding(index, value))
        afn = self.afn(cross.flatten(1))
        deep = self.nn(self.nn_embedding(index, value).flatten(1))
        logit = self.mix["afn"] * afn + self.mix["nn"] * deep + self.bias
        penalty = sum(e.table.weight.square().sum() for e in (self.afn_embedding, self.nn_embedding)) / 2
        return cross, afn, deep, torch.sigmoid(logit).squeeze(-1), penalty


def log_loss(prob, label, eps=1e-7):
    return -torch.where(label > 0, torch.log(prob + eps), torch.log(1 - prob + eps)).mean()


def loss(model, feat_index, feat_value, label):
    cross, afn, deep, prob, penalty = model(feat_index.long(), feat_value)
    logloss = log_loss(prob, label)
    return logloss + L2_EMB * penalty, {"cross": cross, "afn_out": afn, "nn_out": deep, "prob": prob, "logloss": logloss}


def optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.02, initial_accumulator_value=0.1, eps=0.0)
