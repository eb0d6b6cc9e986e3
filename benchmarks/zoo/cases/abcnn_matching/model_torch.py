"""Attention-based CNN for pairs of sentences (Yin et al.), both kinds of attention, one block."""

import torch
from torch import nn
from torch.nn import functional as F


def match_scores(a, b):
    """1 / (1 + distance) of every column of a [n, d, s] to every one of b [n, d, t]: [n, s, t]."""
    squared = (a.unsqueeze(3) - b.unsqueeze(2)).pow(2).sum(dim=1)
    return 1 / (1 + (squared + 1e-6).sqrt())


class InputAttention(nn.Module):
    """Adds a second channel: for each word what it attends to in the other sentence."""

    def __init__(self, length, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(length, dim))
        nn.init.xavier_normal_(self.weight)

    def forward(self, a, b):
        scores = match_scores(a, b)
        for_a = (scores @ self.weight).transpose(1, 2)
        for_b = (scores.transpose(1, 2) @ self.weight).transpose(1, 2)
        return torch.stack([a, for_a], dim=1), torch.stack([b, for_b], dim=1)


class AttentionPooling(nn.Module):
    """Sums windows of columns, each weighed by its attention."""

    def __init__(self, width):
        super().__init__()
        self.width = width

    def pool(self, x, weight):
        return F.avg_pool1d(x * weight.unsqueeze(1), self.width, stride=1) * self.width

    def forward(self, a, b):
        scores = match_scores(a, b)
        return self.pool(a, scores.sum(dim=2)), self.pool(b, scores.sum(dim=1))


class ABCNN(nn.Module):
    def __init__(self, vocab_size=50, length=10, dim=12, filters=14, width=3, extra_features=2):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, dim)
        nn.init.uniform_(self.embed.weight, -0.5, 0.5)
        self.attention = InputAttention(length, dim)
        self.conv = nn.Conv2d(2, filters, (dim, width), padding=(0, width - 1))
        self.pooling = AttentionPooling(width)
        self.classifier = nn.Linear(extra_features + 2, 2)

    def encode(self, tokens):
        x = self.embed(tokens) * (tokens != 0).unsqueeze(-1)
        return x.transpose(1, 2)

    def forward(self, first, second, features):
        a, b = self.encode(first), self.encode(second)
        a2, b2 = self.attention(a, b)
        conv_a = torch.tanh(self.conv(a2).squeeze(2))
        conv_b = torch.tanh(self.conv(b2).squeeze(2))
        left, right = self.pooling(conv_a, conv_b)
        words = F.cosine_similarity(a.mean(dim=2), b.mean(dim=2), dim=1)
        phrases = F.cosine_similarity(left.mean(dim=2), right.mean(dim=2), dim=1)
        output_features = torch.cat([features, words.unsqueeze(1), phrases.unsqueeze(1)], dim=1)
        return left, right, output_features, self.classifier(output_features)


def bare(model):
    return getattr(model, "module", model)


def loss(model, question, answer, features, labels):
    left, right, output_features, logits = model(question.long(), answer.long(), features)
    m = bare(model)
    penalty = sum(w.square().sum() for w in (m.attention.weight, m.conv.weight, m.classifier.weight))
    total = F.cross_entropy(logits, labels.long()) + 4e-4 * penalty / 2
    return total, {"left": left, "right": right, "output_features": output_features, "estimation": logits}


def optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.08, initial_accumulator_value=0.1, eps=0.0)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)


def step(model, optimizer, scheduler, question, answer, features, labels):
    model.train()
    total, outputs = loss(model, question, answer, features, labels)
    optimizer.zero_grad(set_to_none=True)
    total.backward()
    optimizer.step()
    scheduler.step()
    return total, outputs
