"""TabNet for three classes, with the optimizer of the original's training script."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class GhostBatchNorm(nn.Module):
    """Batch norm of virtual batches; example i is in virtual batch i modulo their number, as Keras cuts them.

    The running statistics take the mean over the virtual batches, with the biased variance.
    """

    def __init__(self, dim, virtual_batch_size=8, momentum=0.25, eps=1e-3):
        super().__init__()
        self.virtual_batch_size, self.momentum, self.eps = virtual_batch_size, momentum, eps
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.register_buffer("running_mean", torch.zeros(dim))
        self.register_buffer("running_var", torch.ones(dim))

    def forward(self, x):
        if not self.training:
            return (x - self.running_mean) / torch.sqrt(self.running_var + self.eps) * self.weight + self.bias
        size = self.virtual_batch_size or x.size(0)
        ghosts = x.view(size, -1, x.size(1))
        var, mean = torch.var_mean(ghosts, dim=0, unbiased=False, keepdim=True)
        with torch.no_grad():
            self.running_mean.lerp_(mean.mean((0, 1)), self.momentum)
            self.running_var.lerp_(var.mean((0, 1)), self.momentum)
        out = (ghosts - mean) / torch.sqrt(var + self.eps)
        return out.view_as(x) * self.weight + self.bias


def sparsemax(z):
    """Euclidean projection of each row onto the simplex."""
    ordered = z.sort(dim=-1, descending=True).values
    cumulative = ordered.cumsum(-1) - 1
    rank = torch.arange(1, z.size(-1) + 1, device=z.device, dtype=z.dtype)
    support = (rank * ordered > cumulative).sum(-1, keepdim=True)
    threshold = cumulative.gather(-1, support - 1) / support
    return (z - threshold).clamp(min=0)


class GLULayer(nn.Module):
    """A dense layer, which may be another's, with a norm of its own and a gate."""

    def __init__(self, fc, dim):
        super().__init__()
        self.fc = fc
        self.norm = GhostBatchNorm(2 * dim)

    def forward(self, x):
        return F.glu(self.norm(self.fc(x)), dim=-1)


class FeatureTransformer(nn.Module):
    def __init__(self, shared, dim):
        super().__init__()
        own = [nn.Linear(dim, 2 * dim, bias=False) for _ in range(2)]
        self.layers = nn.ModuleList(GLULayer(fc, dim) for fc in [*shared, *own])

    def forward(self, x):
        x = self.layers[0](x)
        for layer in self.layers[1:]:
            x = (x + layer(x)) * math.sqrt(0.5)
        return x


class AttentiveTransformer(nn.Module):
    def __init__(self, dim, columns):
        super().__init__()
        self.fc = nn.Linear(dim, columns, bias=False)
        self.norm = GhostBatchNorm(columns)

    def forward(self, x, prior):
        return sparsemax(self.norm(self.fc(x)) * prior)


class TabNet(nn.Module):
    def __init__(self, numeric=8, kinds=6, embedding=2, dim=10, decision=4, steps=4, classes=3, gamma=1.5):
        super().__init__()
        columns = numeric + embedding
        self.decision, self.gamma = decision, gamma
        self.kinds = nn.Embedding(kinds, embedding)
        self.initial_norm = GhostBatchNorm(columns, virtual_batch_size=None)
        shared = [nn.Linear(columns, 2 * dim, bias=False), nn.Linear(dim, 2 * dim, bias=False)]
        self.transformers = nn.ModuleList(FeatureTransformer(shared, dim) for _ in range(steps))
        self.attention = nn.ModuleList(AttentiveTransformer(dim - decision, columns) for _ in range(steps - 1))
        self.head = nn.Linear(decision, classes, bias=False)

    def forward(self, numeric, kind):
        features = self.initial_norm(torch.cat([numeric, self.kinds(kind)], dim=1))
        prior = torch.ones_like(features)
        hidden = self.transformers[0](features)
        decisions, masks = [], []
        for attend, transform in zip(self.attention, self.transformers[1:]):
            mask = attend(hidden[:, self.decision :], prior)
            prior = prior * (self.gamma - mask)
            hidden = transform(mask * features)
            decisions.append(F.relu(hidden[:, : self.decision]))
            masks.append(mask)
        aggregated = sum(decisions)
        return features, masks, aggregated, self.head(aggregated)


def mask_entropy(masks, eps=1e-5):
    return sum((-mask * torch.log(mask + eps)).sum(1).mean() for mask in masks) / len(masks)


def loss(model, numeric, kind, labels):
    features, masks, aggregated, logits = model(numeric, kind.long())
    entropy = mask_entropy(masks)
    xent = F.cross_entropy(logits, labels.long())
    outputs = {"features": features, "mask1": masks[0], "mask2": masks[1], "mask3": masks[2],
               "aggregated": aggregated, "logits": logits, "entropy": entropy, "xent": xent}
    return xent + 0.02 * entropy, outputs


class ClippedAdam(torch.optim.Optimizer):
    """Adam with TensorFlow's epsilon, which stands beside the uncorrected root, after clipping each element."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-4, limit=0.05):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "limit": limit})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p)
                    state["exp_avg_sq"] = torch.zeros_like(p)
                state["step"] += 1
                grad = p.grad.clamp_(-group["limit"], group["limit"])
                state["exp_avg"].mul_(beta1).add_(grad, alpha=1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
                correction1 = 1 - beta1 ** state["step"]
                correction2 = math.sqrt(1 - beta2 ** state["step"])
                denominator = state["exp_avg_sq"].sqrt().add_(group["eps"])
                p.addcdiv_(state["exp_avg"], denominator, value=-group["lr"] * correction2 / correction1)


def optimizer(model):
    return ClippedAdam(model.parameters(), lr=0.02)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.8)
