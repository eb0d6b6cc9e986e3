"""DeepAR for counts: scaled inputs, a two-layer LSTM, a negative binomial head."""

import torch
from torch import nn
from torch.nn import functional as F


class MeanScaler(nn.Module):
    def __init__(self, context_length):
        super().__init__()
        self.context_length = context_length

    def forward(self, target, observed):
        target, observed = target[:, : self.context_length], observed[:, : self.context_length]
        count = observed.sum(1, keepdim=True).clamp(min=1.0)
        return 1.0 + (target * observed).sum(1, keepdim=True) / count


class NegativeBinomialOutput(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.mu = nn.Linear(hidden_size, 1)
        self.alpha = nn.Linear(hidden_size, 1)

    def forward(self, hidden, scale):
        mu = scale * F.softplus(self.mu(hidden)).squeeze(-1)
        alpha = F.softplus(self.alpha(hidden)).squeeze(-1) / scale.sqrt()
        return mu, alpha


class Model(nn.Module):
    def __init__(self, num_items=9, embedding_dim=5, num_covariates=3, hidden_size=20, num_layers=2, context_length=12):
        super().__init__()
        self.scaler = MeanScaler(context_length)
        self.embedding = nn.Embedding(num_items, embedding_dim)
        self.lstm = nn.LSTM(1 + num_covariates + embedding_dim + 1, hidden_size, num_layers, batch_first=True)
        self.distribution = NegativeBinomialOutput(hidden_size)
        # one bias is trained; the other is the constant forget bias of the original's cells
        for name, parameter in self.lstm.named_parameters():
            if name.startswith("bias_hh"):
                parameter.requires_grad_(False).zero_()
                parameter[hidden_size : 2 * hidden_size].fill_(1.0)

    def forward(self, target, observed, covariates, item):
        scale = self.scaler(target, observed)
        lagged = F.pad(target[:, :-1], (1, 0)) / scale
        static = torch.cat([self.embedding(item), scale.log()], dim=-1)
        static = static.unsqueeze(1).expand(-1, target.size(1), -1)
        inputs = torch.cat([lagged.unsqueeze(-1), covariates, static], dim=-1)
        hidden, _ = self.lstm(inputs)
        mu, alpha = self.distribution(hidden, scale)
        return {"inputs": inputs, "hidden": hidden, "mu": mu, "alpha": alpha}


def negative_binomial_nll(z, mu, alpha):
    r = 1.0 / alpha
    log_prob = torch.lgamma(z + r) - torch.lgamma(r) - torch.lgamma(z + 1.0)
    log_prob = log_prob - r * torch.log(1.0 + alpha * mu)
    log_prob = log_prob + z * torch.log(alpha * mu / (1.0 + alpha * mu))
    return -log_prob


def loss(model, target, observed, covariates, item):
    outputs = model(target, observed, covariates, item.long())
    losses = negative_binomial_nll(target, outputs["mu"], outputs["alpha"])
    return (losses * observed).sum() / observed.sum(), outputs


def optimizer(model):
    trained = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.Adagrad(trained, lr=0.05, initial_accumulator_value=0.1, eps=0.0)


def clip_by_global_norm(parameters, limit):
    """As tf.clip_by_global_norm: no epsilon in the quotient."""
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.stack([g.norm() for g in grads]).norm()
    factor = limit / norm.clamp(min=limit)
    for grad in grads:
        grad.mul_(factor)


def step(model, optimizer, scheduler, target, observed, covariates, item):
    optimizer.zero_grad()
    total, outputs = loss(model, target, observed, covariates, item)
    total.backward()
    clip_by_global_norm(model.parameters(), 0.25)
    optimizer.step()
    if scheduler is not None:
        scheduler.step()
    return total, outputs
