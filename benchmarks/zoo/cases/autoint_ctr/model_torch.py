"""AutoInt: self-attentive feature interaction for CTR prediction, with a deep part beside it."""

import torch
from torch import nn


class FeatureEmbedding(nn.Module):
    def __init__(self, n_features, dim):
        super().__init__()
        self.table = nn.Embedding(n_features, dim)

    def forward(self, index, value):
        return self.table(index) * value.unsqueeze(-1)


class InteractingLayer(nn.Module):
    """Multi-head self-attention over the fields; all projections are rectified."""

    def __init__(self, in_dim, out_dim, n_head):
        super().__init__()
        self.n_head = n_head
        self.query = nn.Linear(in_dim, out_dim)
        self.key = nn.Linear(in_dim, out_dim)
        self.value = nn.Linear(in_dim, out_dim)
        self.residual = nn.Linear(in_dim, out_dim)
        self.norm = nn.LayerNorm(out_dim, eps=1e-8)

    def forward(self, x):
        q, k, v = (
            torch.relu(linear(x)).unflatten(-1, (self.n_head, -1)).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        scores = torch.matmul(q, k.transpose(-1, -2)) / q.size(-1) ** 0.5
        attention = torch.softmax(scores, dim=-1)
        context = torch.matmul(attention, v)
        context = context.transpose(1, 2).flatten(2)
        out = context + torch.relu(self.residual(x))
        return self.norm(torch.relu(out))


class Model(nn.Module):
    def __init__(self, n_features=89, n_fields=7, embed_dim=10, attention_dims=(12, 15), n_head=3, hidden=(22, 13)):
        super().__init__()
        self.embedding = FeatureEmbedding(n_features, embed_dim)
        dims = (embed_dim, *attention_dims)
        self.layers = nn.ModuleList(InteractingLayer(a, b, n_head) for a, b in zip(dims, dims[1:]))
        self.linear = nn.Linear(n_fields * attention_dims[-1], 1)
        self.mlp = nn.Sequential(
            nn.Linear(n_fields * embed_dim, hidden[0]),
            nn.ReLU(),
            nn.Linear(hidden[0], hidden[1]),
            nn.ReLU(),
            nn.Linear(hidden[1], 1, bias=False),
        )

    def forward(self, index, value):
        embedded = self.embedding(index, value)
        x = embedded
        for layer in self.layers:
            x = layer(x)
        logit = self.linear(x.flatten(1)) + self.mlp(embedded.flatten(1))
        # all of the table, for the l2 term of the loss
        return embedded, x, torch.sigmoid(logit), self.embedding.table.weight


def log_loss(prob, label, eps=1e-7):
    losses = -label * torch.log(prob + eps) - (1 - label) * torch.log(1 - prob + eps)
    return losses.mean()


def loss(model, feat_index, feat_value, label):
    embedded, interactions, prob, table = model(feat_index.long(), feat_value)
    data_loss = log_loss(prob, label)
    total = data_loss + 0.01 * 0.5 * table.pow(2).sum()
    return total, {"embeddings": embedded, "interactions": interactions, "out": prob, "log_loss": data_loss}


def optimizer(model):
    # TensorFlow's Adagrad has no epsilon, its accumulator starts above zero instead
    return torch.optim.Adagrad(model.parameters(), lr=0.05, initial_accumulator_value=0.1, eps=0.0)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + 0.5 * step / 2))
