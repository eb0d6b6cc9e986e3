"""Siamese embedding net with batch-hard triplet loss."""

import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self, embedding_size=16):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 12, kernel_size=3, padding=1)
        self.pool1 = nn.MaxPool2d(2)
        self.conv2 = nn.Conv2d(12, 24, kernel_size=3, padding=1)
        self.pool2 = nn.MaxPool2d(3, stride=2, padding=1)
        self.embedding = nn.Linear(24 * 4 * 4, embedding_size)

    def forward(self, x):
        x = self.pool1(F.relu(self.conv1(x)))
        x = self.pool2(F.relu(self.conv2(x)))
        # the dense layer's rows are in the order of channels-last features
        return self.embedding(x.permute(0, 2, 3, 1).flatten(1))


def pairwise_distances(x):
    dot = x @ x.t()
    square = dot.diagonal()
    distances = (square[:, None] - 2 * dot + square[None, :]).clamp(min=0)
    zero = distances == 0
    return torch.where(zero, torch.zeros_like(distances), torch.where(zero, torch.ones_like(distances), distances).sqrt())


def hardest(distances, labels):
    same = labels[:, None] == labels[None, :]
    itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    positive = distances.masked_fill(~same | itself, 0.0).amax(dim=1)
    negative = distances.masked_fill(same, float("inf")).amin(dim=1)
    return positive, negative


def loss(model, images, identities):
    features = model(images.permute(0, 3, 1, 2).contiguous())
    embeddings = F.normalize(features, dim=1, eps=1e-5)
    positive, negative = hardest(pairwise_distances(embeddings), identities)
    total = F.relu(positive - negative + 0.5).mean()
    return total, {
        "features": features,
        "embeddings": embeddings,
        "hardest_positive": positive,
        "hardest_negative": negative,
        "feature_norm": features.norm(dim=1).mean(),
    }


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
