"""Decomposable attention: attend, compare, aggregate."""

import torch
from torch import nn
from torch.nn import functional as F


class MLP(nn.Module):
    def __init__(self, in_features, hidden):
        super().__init__()
        self.fc1 = nn.Linear(in_features, hidden)
        self.fc2 = nn.Linear(hidden, hidden)

    def forward(self, x):
        return F.relu(self.fc2(F.relu(self.fc1(x))))


def masked_softmax(scores, mask):
    return F.softmax(scores.masked_fill(mask.unsqueeze(1) == 0, float("-inf")), dim=-1)


class IntraAttention(nn.Module):
    def __init__(self, hidden, max_distance):
        super().__init__()
        self.max_distance = max_distance
        self.mlp = MLP(hidden, hidden)
        self.distance_bias = nn.Parameter(torch.zeros(max_distance + 1))

    def forward(self, x, mask):
        h = self.mlp(x)
        positions = torch.arange(x.size(1), device=x.device)
        distance = (positions[:, None] - positions[None, :]).abs().clamp(max=self.max_distance)
        scores = torch.bmm(h, h.transpose(1, 2)) + self.distance_bias[distance]
        return torch.cat([x, torch.bmm(masked_softmax(scores, mask), x)], dim=-1)


class InterAttention(nn.Module):
    def __init__(self, in_features, hidden):
        super().__init__()
        self.mlp = MLP(in_features, hidden)

    def forward(self, a, b, mask_a, mask_b):
        scores = torch.bmm(self.mlp(a), self.mlp(b).transpose(1, 2))
        beta = torch.bmm(masked_softmax(scores, mask_b), b)
        alpha = torch.bmm(masked_softmax(scores.transpose(1, 2), mask_a), a)
        return alpha, beta


class Comparison(nn.Module):
    def __init__(self, in_features, hidden):
        super().__init__()
        self.mlp = MLP(4 * in_features, hidden)

    def forward(self, x, aligned, mask):
        v = self.mlp(torch.cat([x, aligned, x - aligned, x * aligned], dim=-1))
        return (v * mask.unsqueeze(-1)).sum(dim=1)


class Model(nn.Module):
    def __init__(self, vocab_size=60, embed_dim=20, hidden=24, num_classes=3, max_distance=4):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embed_dim)
        self.projection = nn.Linear(embed_dim, hidden, bias=False)
        self.intra_attention = IntraAttention(hidden, max_distance)
        self.inter_attention = InterAttention(2 * hidden, hidden)
        self.comparison = Comparison(2 * hidden, hidden)
        self.aggregation = MLP(2 * hidden, hidden)
        self.classifier = nn.Linear(hidden, num_classes)

    def encode(self, sentence, mask):
        x = self.projection(F.normalize(self.embedding(sentence), dim=-1))
        return self.intra_attention(x, mask)

    def forward(self, sentence1, sentence2, mask1, mask2):
        repr1 = self.encode(sentence1, mask1)
        repr2 = self.encode(sentence2, mask2)
        alpha, beta = self.inter_attention(repr1, repr2, mask1, mask2)
        v1 = self.comparison(repr1, beta, mask1)
        v2 = self.comparison(repr2, alpha, mask2)
        logits = self.classifier(self.aggregation(torch.cat([v1, v2], dim=1)))
        return {"repr1": repr1, "alpha": alpha, "beta": beta, "v1": v1, "v2": v2, "logits": logits}


def l2_penalty(model):
    layers = [m for m in model.modules() if isinstance(m, nn.Linear) and m is not model.projection]
    return 0.5 * sum(layer.weight.pow(2).sum() for layer in layers)


def loss(model, sentence1, sentence2, mask1, mask2, labels):
    outputs = model(sentence1.long(), sentence2.long(), mask1, mask2)
    bare = getattr(model, "module", model)
    return F.cross_entropy(outputs["logits"], labels.long()) + 1e-3 * l2_penalty(bare), outputs


def optimizer(model):
    return torch.optim.Adadelta(model.parameters(), lr=0.5, rho=0.95, eps=1e-8)
