"""GRU4Rec in PyTorch: one nn.GRUCell, which is the cudnn form of the unit."""

import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self, num_items=80, embedding_dim=16, hidden_size=24):
        super().__init__()
        self.item_embedding = nn.Embedding(num_items, embedding_dim)
        self.gru = nn.GRUCell(embedding_dim, hidden_size)
        self.output_embedding = nn.Embedding(num_items, hidden_size)
        self.output_bias = nn.Parameter(torch.zeros(num_items))

    def forward(self, items, targets, begins, hidden):
        states, scores = [], []
        for t in range(items.size(1)):
            hidden = hidden.masked_fill(begins[:, t, None] > 0, 0.0)
            hidden = self.gru(self.item_embedding(items[:, t]), hidden)
            states.append(hidden)
            weight, bias = self.output_embedding(targets[:, t]), self.output_bias[targets[:, t]]
            # [example, target of each example in the batch]
            scores.append(torch.tanh(F.linear(hidden, weight, bias)))
        return torch.stack(states, 1), torch.stack(scores)


def top1(scores):
    positive = scores.diagonal(dim1=1, dim2=2).unsqueeze(2)
    every = torch.sigmoid(scores - positive) + torch.sigmoid(scores.square())
    itself = torch.sigmoid(positive.square()).squeeze(2) / scores.size(2)
    return (every.mean(2) - itself).mean()


def bpr(scores):
    positive = scores.diagonal(dim1=1, dim2=2).unsqueeze(2)
    return -F.logsigmoid(positive - scores).mean()


def loss(model, items, targets, begins, state):
    hidden, scores = model(items.long(), targets.long(), begins, state)
    parts = {"top1": top1(scores), "bpr": bpr(scores)}
    return parts["top1"] + 0.5 * parts["bpr"], {"hidden": hidden, "yhat": scores, **parts}


def optimizer(model):
    return torch.optim.Adadelta(model.parameters(), lr=0.5, rho=0.95, eps=1e-6)
