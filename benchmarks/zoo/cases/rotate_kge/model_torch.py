"""RotatE with self-adversarial negative sampling."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class RotationScore(nn.Module):
    """gamma less the distance of the tail from the head that the relation has rotated."""

    def __init__(self, gamma, embedding_range):
        super().__init__()
        self.gamma = gamma
        self.embedding_range = embedding_range

    def forward(self, head, relation, tail):
        re_head, im_head = head.chunk(2, dim=-1)
        re_tail, im_tail = tail.chunk(2, dim=-1)
        phase = relation * (math.pi / self.embedding_range)
        re_relation, im_relation = torch.cos(phase), torch.sin(phase)
        re = re_head * re_relation - im_head * im_relation - re_tail
        im = re_head * im_relation + im_head * re_relation - im_tail
        return self.gamma - torch.stack([re, im]).norm(dim=0).sum(dim=-1)


class Model(nn.Module):
    def __init__(self, num_entities=150, num_relations=14, hidden=20, gamma=6.0, epsilon=2.0):
        super().__init__()
        embedding_range = (gamma + epsilon) / hidden
        self.entities = nn.Embedding(num_entities, 2 * hidden)
        self.relations = nn.Embedding(num_relations, hidden)
        nn.init.uniform_(self.entities.weight, -embedding_range, embedding_range)
        nn.init.uniform_(self.relations.weight, -embedding_range, embedding_range)
        self.score = RotationScore(gamma, embedding_range)

    def forward(self, head, relation, tail, negatives, corrupt_head):
        h = self.entities(head).unsqueeze(1)
        r = self.relations(relation).unsqueeze(1)
        t = self.entities(tail).unsqueeze(1)
        n = self.entities(negatives)
        at_head = corrupt_head.bool().view(-1, 1, 1)
        negative = self.score(torch.where(at_head, n, h), r, torch.where(at_head, t, n))
        return self.score(h, r, t), negative


def weighted_mean(values, weights):
    return (values * weights).sum() / weights.sum()


def loss(model, head, relation, tail, negatives, corrupt_head, subsampling, temperature=0.5, regularization=1e-4):
    positive_score, negative_score = model(
        head.long(), relation.long(), tail.long(), negatives.long(), corrupt_head)
    adversarial = F.softmax(negative_score * temperature, dim=1).detach()
    negative = (adversarial * F.logsigmoid(-negative_score)).sum(dim=1)
    positive = F.logsigmoid(positive_score).squeeze(1)
    positive_loss = -weighted_mean(positive, subsampling)
    negative_loss = -weighted_mean(negative, subsampling)
    n3 = sum(p.abs().pow(3).sum() for p in model.parameters())
    total = (positive_loss + negative_loss) / 2 + regularization * n3
    return total, {"positive_score": positive_score, "negative_score": negative_score,
                   "positive_loss": positive_loss, "negative_loss": negative_loss}
