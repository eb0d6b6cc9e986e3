"""Conditional MADE with mixtures of Gaussians."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class MaskedLinear(nn.Linear):
    """A linear layer, of which only the weights under the mask are used."""

    def __init__(self, in_degrees, out_degrees, strict, bias=True):
        super().__init__(len(in_degrees), len(out_degrees), bias=bias)
        before, after = in_degrees[None, :], out_degrees[:, None]
        self.register_buffer("mask", (after > before if strict else after >= before).float())

    def forward(self, x):
        return F.linear(x, self.mask * self.weight, self.bias)


class MaskedBlock(nn.Module):
    def __init__(self, in_degrees, out_degrees, num_classes):
        super().__init__()
        self.linear = MaskedLinear(in_degrees, out_degrees, strict=False)
        self.context_layer = nn.Linear(num_classes, len(out_degrees), bias=False)

    def forward(self, x, context):
        return torch.sigmoid(self.linear(x) + self.context_layer(context))


class MixtureHead(nn.Module):
    """One number for each dimension and component: [batch, dimensions, components]."""

    def __init__(self, in_degrees, hidden_degrees, n_components):
        super().__init__()
        self.output = nn.ModuleList(MaskedLinear(hidden_degrees, in_degrees, True) for _ in range(n_components))
        self.direct = nn.ModuleList(MaskedLinear(in_degrees, in_degrees, True, False) for _ in range(n_components))

    def forward(self, x, h):
        return torch.stack([out(h) + skip(x) for out, skip in zip(self.output, self.direct)], dim=2)


class Model(nn.Module):
    def __init__(self, order=(3, 7, 1, 5, 2, 6, 4), num_classes=3, hidden=32, n_components=4):
        super().__init__()
        self.num_classes = num_classes
        inputs = torch.tensor(order)
        units = torch.arange(hidden) % (len(order) - 1) + 1
        self.block1 = MaskedBlock(inputs, units, num_classes)
        self.block2 = MaskedBlock(units, units, num_classes)
        self.means = MixtureHead(inputs, units, n_components)
        self.log_precisions = MixtureHead(inputs, units, n_components)
        self.logits = MixtureHead(inputs, units, n_components)

    def forward(self, x, labels):
        context = F.one_hot(labels, self.num_classes).to(x.dtype)
        hidden_1 = self.block1(x, context)
        hidden_2 = self.block2(hidden_1, context)
        means = self.means(x, hidden_2)
        log_precisions = self.log_precisions(x, hidden_2)
        log_coefficients = F.log_softmax(self.logits(x, hidden_2), dim=2)
        return {"hidden_1": hidden_1, "hidden_2": hidden_2, "means": means, "log_precisions": log_precisions,
                "log_coefficients": log_coefficients}


def mixture_log_prob(x, means, log_precisions, log_coefficients):
    squares = log_precisions.exp() * (x.unsqueeze(2) - means) ** 2
    log_normal = 0.5 * (log_precisions - squares - math.log(2 * math.pi))
    return torch.logsumexp(log_coefficients + log_normal, dim=2)


def kl_sparsity(h, rho=0.2):
    rho_hat = h.mean(dim=0)
    return (rho * torch.log(rho / rho_hat) + (1 - rho) * torch.log((1 - rho) / (1 - rho_hat))).sum()


def loss(model, x, labels, global_batch_size=40):
    """One rank's share of the mean over the whole batch: the ranks' gradients are summed."""
    out = model(x, labels.long())
    out["log_probs"] = mixture_log_prob(x, out["means"], out["log_precisions"], out["log_coefficients"])
    out["sparsity"] = kl_sparsity(out["hidden_1"]) + kl_sparsity(out["hidden_2"])
    return -out["log_probs"].sum() / global_batch_size + 0.05 * out["sparsity"], out


def optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.02, initial_accumulator_value=0.1, eps=0.0)
