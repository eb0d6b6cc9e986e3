"""DeepFM in PyTorch."""

import torch
from torch import nn
from torch.nn import functional as F


class FactorizationMachine(nn.Module):
    """Half of (square of the sum less sum of the squares), for every factor."""

    def forward(self, x):
        return 0.5 * (x.sum(dim=1).pow(2) - x.pow(2).sum(dim=1))


class Model(nn.Module):
    def __init__(self, num_fields=5, num_buckets=200, embed_dim=6, num_dense=2, hidden_units=(24, 16)):
        super().__init__()
        self.num_buckets = num_buckets
        self.register_buffer("salt", 7919 * torch.arange(1, num_fields + 1), persistent=False)
        self.embed = nn.Embedding(num_buckets, embed_dim)
        self.linear = nn.Embedding(num_buckets, 1)
        self.fm = FactorizationMachine()
        layers, size = [], num_fields * embed_dim + num_dense
        for units in hidden_units:
            layers += [nn.Linear(size, units), nn.ReLU()]
            size = units
        self.dnn = nn.Sequential(*layers)
        self.out = nn.Linear(num_fields + embed_dim + size, 1)

    def forward(self, ids, numbers):
        index = (ids * 40503 + self.salt) % self.num_buckets
        embeddings = self.embed(index)
        first = self.linear(index).squeeze(-1)
        second = self.fm(embeddings)
        deep = self.dnn(torch.cat([embeddings.flatten(1), torch.log1p(numbers)], dim=1))
        logit = self.out(torch.cat([first, second, deep], dim=1))
        return embeddings, first, second, deep, logit


def loss(model, ids, numbers, label):
    embeddings, first, second, deep, logit = model(ids, numbers)
    log_loss = F.binary_cross_entropy_with_logits(logit, label)
    kernels = [m.weight for m in model.modules() if isinstance(m, nn.Linear)]
    l2 = sum(w.square().sum() for w in kernels) + embeddings.square().sum(dim=(1, 2)).mean()
    return log_loss + 0.01 / 2 * l2, {"y_first_order": first, "y_second_order": second, "y_deep": deep,
                                      "logit": logit, "log_loss": log_loss}


def optimizer(model):
    # TensorFlow's Adagrad begins at 0.1 and has no epsilon
    return torch.optim.Adagrad(model.parameters(), lr=0.05, initial_accumulator_value=0.1, eps=0.0)
