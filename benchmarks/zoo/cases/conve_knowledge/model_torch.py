import torch
from torch import nn
from torch.nn import functional as F

ENTITIES, RELATIONS = 37, 9
SMOOTHING = 0.1
MAX_NORM = 0.03


class _BiasedRunningVariance:
    """For batch norm whose running variance takes the variance of the batch as it normalises by it."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            var, mean = torch.var_mean(x, [d for d in range(x.dim()) if d != 1], correction=0)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)


class BatchNorm1d(_BiasedRunningVariance, nn.BatchNorm1d):
    pass


class BatchNorm2d(_BiasedRunningVariance, nn.BatchNorm2d):
    pass


class Model(nn.Module):
    def __init__(self, height=4, width=5, filters=10):
        super().__init__()
        dim = height * width
        norm = {"eps": 1e-3, "momentum": 0.1}
        self.image = (1, height, width)
        self.entities = nn.Embedding(ENTITIES, dim)
        self.relations = nn.Embedding(RELATIONS, dim)
        self.entity_bias = nn.Parameter(torch.zeros(ENTITIES))
        self.input_norm = BatchNorm2d(1, **norm)
        self.conv = nn.Conv2d(1, filters, 3)
        self.conv_norm = BatchNorm2d(filters, **norm)
        self.project = nn.Linear(filters * (2 * height - 2) * (width - 2), dim)
        self.query_norm = BatchNorm1d(dim, **norm)
        nn.init.xavier_normal_(self.entities.weight)
        nn.init.xavier_normal_(self.relations.weight)

    def as_image(self, vectors):
        return vectors.view(-1, *self.image)

    def forward(self, head, relation):
        head, relation = self.as_image(self.entities(head)), self.as_image(self.relations(relation))
        x = self.input_norm(torch.cat([head, relation], dim=2))
        x = F.relu(self.conv_norm(self.conv(x)))
        query = F.relu(self.query_norm(self.project(x.flatten(1))))
        return query, F.linear(query, self.entities.weight, self.entity_bias)


def loss(model, e1, rel, e2_multi):
    query, logits = model(e1.long(), rel.long())
    targets = (1 - SMOOTHING) * e2_multi + 1 / ENTITIES
    value = F.binary_cross_entropy_with_logits(logits, targets)
    hits = e2_multi.gather(1, logits.argmax(1, keepdim=True)).mean()
    return value, {"query": query, "logits": logits, "hits_at_1": hits}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, nesterov=True)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)


def clip_each(parameters, limit):
    """Brings every parameter's own gradient to at most `limit`."""
    for p in parameters:
        p.grad.mul_(limit / p.grad.norm().clamp(min=limit))


def step(model, optimizer, scheduler, e1, rel, e2_multi):
    optimizer.zero_grad()
    value, outputs = loss(model, e1, rel, e2_multi)
    value.backward()
    clip_each(model.parameters(), MAX_NORM)
    optimizer.step()
    scheduler.step()
    return value, outputs
