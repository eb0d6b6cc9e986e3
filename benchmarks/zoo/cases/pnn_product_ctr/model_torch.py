"""Product-based neural network (inner and outer products), batch norm with the original's biased moving variance."""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm(nn.BatchNorm1d):
    def forward(self, x):
        if not self.training:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        mean, var = x.mean(0), x.var(0, unbiased=False)
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)
        return (x - mean) * torch.rsqrt(var + self.eps) * self.weight + self.bias


class ProductLayer(nn.Module):
    def __init__(self, fields, dim, units):
        super().__init__()
        self.linear = nn.Parameter(torch.randn(units, fields, dim) * 0.2)
        self.theta = nn.Parameter(torch.randn(units, fields) * 0.3)
        self.kernels = nn.Parameter(torch.randn(units, dim, dim) * 0.1)
        self.bias = nn.Parameter(torch.zeros(units))

    def forward(self, x):
        signal = torch.einsum("bfk,ufk->bu", x, self.linear)
        inner = torch.einsum("bfk,uf->buk", x, self.theta).norm(dim=2)
        total = x.sum(dim=1)
        outer = torch.einsum("bi,bj,uij->bu", total, total, self.kernels)
        return F.relu(signal + inner + outer + self.bias)


class Model(nn.Module):
    def __init__(self, num_features=49, num_fields=5, dim=6, units=12, hidden=(20, 16)):
        super().__init__()
        self.features = nn.Embedding(num_features, dim)
        self.product = ProductLayer(num_fields, dim, units)
        sizes = (units,) + hidden
        self.layers = nn.ModuleList(nn.Linear(i, o, bias=False) for i, o in zip(sizes, hidden))
        self.norms = nn.ModuleList(BatchNorm(o, eps=1e-3, momentum=0.1) for o in hidden)
        self.head = nn.Linear(hidden[-1], 1)

    def forward(self, index, value, masks):
        x = self.features(index) * value.unsqueeze(-1)
        product = self.product(x)
        if not self.training:
            masks = [1.0] * len(masks)
        h = product * masks[0]
        for layer, norm, mask in zip(self.layers, self.norms, masks[1:]):
            h = F.relu(norm(layer(h))) * mask
        return product, torch.sigmoid(self.head(h))


def log_loss(label, probability, eps=1e-7):
    return -(label * torch.log(probability + eps) + (1 - label) * torch.log(1 - probability + eps)).mean()


def loss(model, feat_index, feat_value, label, keep_0, keep_1, keep_2):
    product, probability = model(feat_index.long(), feat_value, [keep_0, keep_1, keep_2])
    return log_loss(label, probability), {"product": product, "probability": probability}


def rate(step):
    return 0.002 * 0.9 ** (step // 2)
