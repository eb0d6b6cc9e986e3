"""Show and tell in PyTorch, with a training step of its own."""

import torch
from torch import nn
from torch.nn import functional as F


class LSTMCell(nn.Module):
    """One product for input and state, one bias; the gates lie as input, new, forget, output."""

    def __init__(self, input_size, hidden_size, forget_bias=1.0):
        super().__init__()
        self.linear = nn.Linear(input_size + hidden_size, 4 * hidden_size)
        self.forget_bias = forget_bias

    def forward(self, x, h, c):
        i, g, f, o = self.linear(torch.cat([x, h], dim=1)).chunk(4, dim=1)
        c = torch.sigmoid(f + self.forget_bias) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class Model(nn.Module):
    def __init__(self, feature_size=20, vocab_size=44, embed_size=16, hidden_size=20):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, embed_size)
        self.init_h = nn.Linear(feature_size, hidden_size)
        self.init_c = nn.Linear(feature_size, hidden_size)
        self.lstm = LSTMCell(embed_size, hidden_size)
        self.hidden_to_out = nn.Linear(hidden_size, embed_size)
        self.context_to_out = nn.Linear(feature_size, embed_size, bias=False)
        self.fc = nn.Linear(embed_size, vocab_size)

    def forward(self, features, words):
        h, c = torch.tanh(self.init_h(features)), torch.tanh(self.init_c(features))
        first, context = h, self.context_to_out(features)
        hidden, logits = [], []
        for x in self.embed(words).unbind(1):
            h, c = self.lstm(x, h, c)
            hidden.append(h)
            logits.append(self.fc(torch.tanh(self.hidden_to_out(h) + context + x)))
        return first, torch.stack(hidden, 1), torch.stack(logits, 1)


def loss(model, features, captions):
    captions = captions.long()
    words, targets = captions[:, :-1], captions[:, 1:]
    first, hidden, logits = model(features, words)
    count = (targets != 0).sum().to(logits.dtype)
    total = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=0, reduction="sum")
    return total / count, {"first": first, "hidden": hidden, "last_logits": logits[:, -1], "words": count}


def clip_grad_norm(parameters, limit):
    """nn.utils.clip_grad_norm_ without the 1e-6 that it adds to the norm."""
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack([g.norm() for g in grads]))
    for g in grads:
        g.mul_(limit / torch.clamp(norm, min=limit))


def step(model, optimizer, scheduler, features, captions):
    optimizer.zero_grad()
    value, outputs = loss(model, features, captions)
    value.backward()
    clip_grad_norm(model.parameters(), 0.5)
    optimizer.step()
    scheduler.step()
    return value, outputs


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.5)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
