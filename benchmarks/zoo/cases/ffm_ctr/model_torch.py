"""Field-aware factorization machine in torch, without loops over the pairs of fields."""

import torch
from torch import nn
from torch.nn import functional as F

FIELD_DIMS = (8, 10, 12, 6, 5)
TAGS = 9


class FeaturesLinear(nn.Module):
    def __init__(self, num_features):
        super().__init__()
        self.fc = nn.Embedding(num_features, 1)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, features, weights):
        return (self.fc(features).squeeze(-1) * weights).sum(dim=1) + self.bias


class FieldAwareInteraction(nn.Module):
    """`factors[i, j]` is what feature i shows to features of field j."""

    def __init__(self, num_features, num_fields, k):
        super().__init__()
        self.factors = nn.Parameter(0.2 * torch.randn(num_features, num_fields, k))
        self.num_fields = num_fields

    def forward(self, features, values, tags, tag_share):
        looked_up = self.factors[features]
        tag_vector = (self.factors[tags] * tag_share[:, :, None, None]).sum(dim=1, keepdim=True)
        latent = torch.cat([looked_up * values[:, :, None, None], tag_vector], dim=1)
        products = (latent * latent.transpose(1, 2)).sum(dim=-1)
        rows, columns = torch.triu_indices(self.num_fields, self.num_fields, offset=1)
        penalty = 0.5 * looked_up.pow(2).sum()
        return latent, products[:, rows, columns].sum(dim=1), penalty


class Model(nn.Module):
    def __init__(self, k=4):
        super().__init__()
        dims = FIELD_DIMS + (TAGS,)
        starts = torch.tensor(dims).cumsum(0) - torch.tensor(dims)
        self.register_buffer("offsets", starts, persistent=False)
        self.linear = FeaturesLinear(sum(dims))
        self.ffm = FieldAwareInteraction(sum(dims), len(dims), k)

    def forward(self, fields, values, tags, tag_mask):
        features = fields + self.offsets[:-1]
        tags = tags + self.offsets[-1]
        values = values / values.norm(dim=1, keepdim=True)
        tag_share = tag_mask / tag_mask.sum(dim=1, keepdim=True)
        linear = self.linear(torch.cat([features, tags], dim=1), torch.cat([values, tag_share], dim=1))
        latent, interaction, penalty = self.ffm(features, values, tags, tag_share)
        return linear, latent, interaction, penalty


def loss(model, fields, values, tags, tag_mask, clicked, importance):
    linear, latent, interaction, penalty = model(fields.long(), values, tags.long(), tag_mask)
    logits = linear + interaction
    y = 2.0 * clicked - 1.0
    log_loss = (importance * F.softplus(-y * logits)).sum()
    return log_loss + 2e-3 * penalty, {"linear": linear, "latent": latent, "interaction": interaction,
                                       "logits": logits, "log_loss": log_loss}


def optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.1, initial_accumulator_value=0.1, eps=0.0)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 / (1.0 + 0.5 * step))
