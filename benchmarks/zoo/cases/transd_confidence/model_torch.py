"""TransD embeddings of a knowledge graph with confidence-weighted margin ranking."""
import torch
from torch import nn
from torch.nn import functional as F


class Projection(nn.Module):
    """Maps entities into the space of their relation: by the identity plus the outer product of two vectors."""

    def forward(self, entity, entity_map, relation_map):
        along = (entity * entity_map).sum(-1, keepdim=True)
        return F.normalize(entity + along * relation_map, dim=-1)


class Distance(nn.Module):
    def forward(self, head, relation, tail):
        return torch.linalg.vector_norm(head + relation - tail, ord=1, dim=-1)


class Model(nn.Module):
    def __init__(self, entities=90, relations=11, dim=24):
        super().__init__()
        self.entity = nn.Embedding(entities, dim)
        self.relation = nn.Embedding(relations, dim)
        self.entity_map = nn.Embedding(entities, dim)
        self.relation_map = nn.Embedding(relations, dim)
        for table in (self.entity, self.relation, self.entity_map, self.relation_map):
            nn.init.xavier_normal_(table.weight)
        self.project = Projection()
        self.distance = Distance()

    def forward(self, h, r, t):
        relation_map = self.relation_map(r)
        head = self.project(self.entity(h), self.entity_map(h), relation_map)
        tail = self.project(self.entity(t), self.entity_map(t), relation_map)
        return self.distance(head, self.relation(r), tail)


def loss(model, pos_h, pos_t, pos_r, neg_h, neg_t, neg_r, confidence):
    batch_size, negatives = neg_h.shape
    # facts and corrupted facts go through the model in one long list
    h = torch.cat([pos_h, neg_h.reshape(-1)]).long()
    r = torch.cat([pos_r, neg_r.reshape(-1)]).long()
    t = torch.cat([pos_t, neg_t.reshape(-1)]).long()
    scores = model(h, r, t)
    p_score = scores[:batch_size]
    n_score = scores[batch_size:].view(batch_size, negatives).mean(1)
    total = (confidence * F.relu(p_score - n_score + 2.0)).sum()
    return total, {"p_score": p_score, "n_score": n_score}


def optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.1, initial_accumulator_value=0.1, eps=0)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + 0.5 * step))
