import torch
from torch import nn
import torch.nn.functional as F

FIELDS = (11, 5, 23, 3, 17, 8, 14)
L2 = 0.003
MAX_NORM = 0.5


class BatchNorm(nn.BatchNorm1d):
    """As tf.layers.batch_normalization: the moving variance takes the biased variance of the batch."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=0, correction=0)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)


class CIN(nn.Module):
    """Compressed interaction network; half of each layer's maps go on, the other half to the output."""

    def __init__(self, fields, sizes):
        super().__init__()
        self.convs = nn.ModuleList()
        maps = fields
        for size in sizes:
            self.convs.append(nn.Conv1d(fields * maps, size, kernel_size=1))
            maps = size // 2

    def forward(self, x0):
        hidden, outputs = x0, []
        for i, conv in enumerate(self.convs):
            z = torch.einsum("bfd,bhd->bfhd", x0, hidden).flatten(1, 2)
            out = F.relu(conv(z))
            if i < len(self.convs) - 1:
                hidden, out = out.chunk(2, dim=1)
            outputs.append(out)
        return torch.cat(outputs, dim=1).sum(dim=-1)


class Model(nn.Module):
    def __init__(self, dim=6, cross=(10, 12, 8), deep=(20, 12)):
        super().__init__()
        total = sum(FIELDS)
        offsets = torch.tensor((0, *FIELDS[:-1])).cumsum(0)
        self.register_buffer("offsets", offsets, persistent=False)
        self.linear = nn.Embedding(total, 1)
        self.bias = nn.Parameter(torch.zeros(1))
        self.embedding = nn.Embedding(total, dim)
        self.cin = CIN(len(FIELDS), cross)
        self.cin_out = nn.Linear(sum(s // 2 for s in cross[:-1]) + cross[-1], 1)
        self.mlp = nn.Sequential(
            nn.Linear(len(FIELDS) * dim, deep[0], bias=False),
            BatchNorm(deep[0], eps=1e-3, momentum=0.1),
            nn.ReLU(),
            nn.Linear(deep[0], deep[1]),
            nn.ReLU(),
        )
        self.mlp_out = nn.Linear(deep[-1], 1, bias=False)

    def forward(self, ids, values):
        rows = ids + self.offsets
        linear = (self.linear(rows).squeeze(-1) * values).sum(dim=1) + self.bias
        embedding = self.embedding(rows) * values.unsqueeze(-1)
        cross = self.cin(embedding)
        deep = self.mlp(embedding.flatten(1))
        logits = linear + (self.cin_out(cross) + self.mlp_out(deep)).squeeze(-1)
        return logits, {"embedding": embedding, "cross": cross, "deep": deep, "logits": logits}

    def penalty(self):
        weights = [self.linear.weight, self.embedding.weight] + [conv.weight for conv in self.cin.convs]
        return sum(0.5 * w.pow(2).sum() for w in weights)


def loss(model, ids, values, labels):
    logits, outputs = model(ids, values)
    penalty = getattr(model, "module", model).penalty()
    return F.binary_cross_entropy_with_logits(logits, labels) + L2 * penalty, outputs


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)


def clip_by_global_norm(parameters, limit):
    """tf.clip_by_global_norm: limit / max(norm, limit), without the 1e-6 of clip_grad_norm_."""
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.stack([g.norm() for g in grads]).norm()
    for g in grads:
        g.mul_(limit / norm.clamp(min=limit))


def step(model, optimizer, scheduler, ids, values, labels):
    optimizer.zero_grad()
    total, outputs = loss(model, ids, values, labels)
    total.backward()
    clip_by_global_norm(model.parameters(), MAX_NORM)
    optimizer.step()
    return total, outputs
