"""GRU language model with an adaptive softmax."""

import torch
from torch import nn


class GRUCell(nn.Module):
    """The cell of Cho et al., which resets the state before the product; nn.GRU does it after."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.gates = nn.Linear(input_size + hidden_size, 2 * hidden_size)
        self.candidate = nn.Linear(input_size + hidden_size, hidden_size)

    def forward(self, x, h):
        reset, update = torch.sigmoid(self.gates(torch.cat([x, h], dim=-1))).chunk(2, dim=-1)
        new = torch.tanh(self.candidate(torch.cat([x, reset * h], dim=-1)))
        return update * h + (1 - update) * new


class Model(nn.Module):
    def __init__(self, vocab_size=60, embedding_dim=16, hidden_size=32, cutoffs=(12, 30)):
        super().__init__()
        self.encoder = nn.Embedding(vocab_size, embedding_dim)
        self.lower = GRUCell(embedding_dim, hidden_size)
        self.upper = GRUCell(hidden_size, hidden_size)
        self.decoder = nn.AdaptiveLogSoftmaxWithLoss(hidden_size, vocab_size, list(cutoffs), div_value=4.0)

    def forward(self, tokens, targets, state, keep):
        x = self.encoder(tokens) * keep
        low, high = state.unbind(dim=1)
        outputs = []
        for t in range(x.size(1)):
            low = self.lower(x[:, t], low)
            high = self.upper(low, high)
            outputs.append(high)
        output = torch.stack(outputs, dim=1)
        log_probs = self.decoder(output.flatten(0, 1), targets.flatten()).output
        return output, torch.stack([low, high], dim=1), log_probs.view_as(targets)


def loss(model, inputs, targets, weights, state, keep):
    output, final_state, log_probs = model(inputs.long(), targets.long(), state, keep)
    nll = -(log_probs * weights).sum() / weights.sum()
    return nll, {"output": output, "final_state": final_state}


def clip_by_global_norm_(parameters, limit):
    """As in TensorFlow: nothing is added to the norm."""
    grads = [p.grad for p in parameters]
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in grads]))
    for grad in grads:
        grad.mul_(limit / norm.clamp(min=limit))


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.5)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.8)


def step(model, optimizer, scheduler, **batch):
    optimizer.zero_grad()
    value, outputs = loss(model, **batch)
    value.backward()
    clip_by_global_norm_(list(model.parameters()), 0.05)
    optimizer.step()
    scheduler.step()
    return value, outputs
