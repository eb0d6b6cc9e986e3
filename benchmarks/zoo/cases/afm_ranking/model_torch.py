"""Attentional factorisation machine with a pairwise (BPR) objective."""

import torch
from torch import nn
from torch.nn import functional as F


class FeaturesLinear(nn.Module):
    def __init__(self, num_features):
        super().__init__()
        self.fc = nn.Embedding(num_features, 1)

    def forward(self, x, values):
        return (self.fc(x).squeeze(-1) * values).sum(dim=1)


class AttentionalPooling(nn.Module):
    def __init__(self, num_fields, embed_dim, attn_size):
        super().__init__()
        row, col = torch.triu_indices(num_fields, num_fields, offset=1)
        self.register_buffer("row", row, persistent=False)
        self.register_buffer("col", col, persistent=False)
        self.attention = nn.Linear(embed_dim, attn_size)
        self.projection = nn.Linear(attn_size, 1, bias=False)

    def forward(self, x):
        inner_product = x[:, self.row] * x[:, self.col]
        attn_scores = F.relu(self.attention(inner_product))
        attn_scores = F.softmax(self.projection(attn_scores), dim=1)
        return (attn_scores * inner_product).sum(dim=1)


class AFM(nn.Module):
    def __init__(self, num_features=61, num_fields=6, embed_dim=10, attn_size=8):
        super().__init__()
        self.embedding = nn.Embedding(num_features, embed_dim)
        self.linear = FeaturesLinear(num_features)
        self.afm = AttentionalPooling(num_fields, embed_dim, attn_size)
        self.fc = nn.Linear(embed_dim, 1, bias=False)
        nn.init.normal_(self.embedding.weight, std=0.3)
        nn.init.ones_(self.fc.weight)

    def score(self, x, values):
        embedded = self.embedding(x)
        pooled = self.afm(embedded * values.unsqueeze(-1))
        return self.fc(pooled).squeeze(1) + self.linear(x, values), pooled, embedded

    def forward(self, clicked, clicked_values, skipped, skipped_values):
        pos, pooled, pos_embedded = self.score(clicked, clicked_values)
        neg, _, neg_embedded = self.score(skipped, skipped_values)
        # what is penalised comes out of forward, so that DDP sees it used
        embedding_l2 = pos_embedded.pow(2).sum() + neg_embedded.pow(2).sum()
        attention_l2 = self.afm.attention.weight.pow(2).sum()
        return pos, neg, pooled, 0.01 / 2 * embedding_l2 + 0.05 / 2 * attention_l2


def bpr_loss(pos, neg, importance):
    return -(importance * F.logsigmoid(pos - neg)).sum()


def loss(model, clicked, clicked_values, skipped, skipped_values, importance):
    pos, neg, pooled, penalty = model(clicked.long(), clicked_values, skipped.long(), skipped_values)
    ranking = bpr_loss(pos, neg, importance)
    return ranking + penalty, {"pooled": pooled, "clicked_score": pos, "skipped_score": neg, "ranking": ranking}


def optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.05, initial_accumulator_value=0.1, eps=0.0)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + 0.5 * step / 2))
