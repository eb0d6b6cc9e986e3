"""Wide & Deep; bags of skills through EmbeddingBag."""

import torch
from torch import nn
from torch.nn import functional as F


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.occupation = nn.Embedding(30, 1)
        self.education = nn.Embedding(12, 1)
        self.crossed = nn.Embedding(50, 1)
        self.numeric = nn.Linear(4, 1)

    def forward(self, occupation, education, crossed, numbers):
        return self.occupation(occupation) + self.education(education) + self.crossed(crossed) + self.numeric(numbers)


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_education = nn.Embedding(12, 4)
        self.embed_occupation = nn.Embedding(30, 8)
        self.embed_skills = nn.EmbeddingBag(40, 8, mode="mean", padding_idx=0)
        self.mlp = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())
        self.head = nn.Linear(16, 1)

    def forward(self, occupation, education, skills, numbers):
        features = torch.cat(
            [self.embed_education(education), self.embed_occupation(occupation), self.embed_skills(skills), numbers],
            dim=1,
        )
        hidden = self.mlp(features)
        return features, hidden, self.head(hidden)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide = Wide()
        self.deep = Deep()

    def forward(self, occupation, education, crossed, skills, numbers):
        numbers = torch.log1p(numbers)
        wide = self.wide(occupation, education, crossed, numbers)
        features, hidden, deep = self.deep(occupation, education, skills, numbers)
        return {"wide": wide, "features": features, "hidden": hidden, "logits": (wide + deep).squeeze(1)}


def loss(model, occupation, education, crossed, skills, numbers, labels):
    out = model(occupation.long(), education.long(), crossed.long(), skills.long(), numbers)
    return F.binary_cross_entropy_with_logits(out["logits"], labels), out


def optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.05, initial_accumulator_value=0.1, eps=0.0)
