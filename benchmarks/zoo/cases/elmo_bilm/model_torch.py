"""Bidirectional language model: a stack of projected LSTMs from either end, one embedding and one softmax for both."""

import torch
from torch import nn
from torch.nn import functional as F


class LanguageModelLSTM(nn.Module):
    """One direction: LSTMs one upon another, with a skip connection around all but the first."""

    def __init__(self, dim, hidden_size, num_layers):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.LSTM(dim, hidden_size, proj_size=dim, batch_first=True) for _ in range(num_layers)
        )
        for lstm in self.layers:
            # a single bias is trained; the other is the constant that the forget gate starts with
            with torch.no_grad():
                lstm.bias_ih_l0.zero_()
                lstm.bias_hh_l0.zero_()
                lstm.bias_hh_l0[hidden_size : 2 * hidden_size] = 1.0
            lstm.bias_hh_l0.requires_grad_(False)

    def forward(self, x):
        state = None
        for i, lstm in enumerate(self.layers):
            out, _ = lstm(x, state)
            x = out if i == 0 else x + out
        return x


class Model(nn.Module):
    def __init__(self, vocab_size=40, dim=12, hidden_size=20, num_layers=2):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, dim)
        self.forward_lm = LanguageModelLSTM(dim, hidden_size, num_layers)
        self.backward_lm = LanguageModelLSTM(dim, hidden_size, num_layers)
        self.softmax = nn.Linear(dim, vocab_size)

    def forward(self, tokens, tokens_reverse):
        embedded = self.embedding(tokens)
        ahead = self.forward_lm(embedded)
        behind = self.backward_lm(self.embedding(tokens_reverse))
        return embedded, ahead, behind, self.softmax(ahead), self.softmax(behind)


def direction_loss(logits, targets, weights):
    losses = F.cross_entropy(logits.flatten(0, 1), targets.long().flatten(), reduction="none")
    return (losses * weights.flatten()).mean()


def loss(model, tokens, next_tokens, tokens_reverse, next_tokens_reverse, weights):
    embedded, ahead, behind, logits, logits_reverse = model(tokens.long(), tokens_reverse.long())
    loss_ahead = direction_loss(logits, next_tokens, weights)
    loss_behind = direction_loss(logits_reverse, next_tokens_reverse, weights)
    total = (loss_ahead + loss_behind) / 2
    return total, {"token_embedding": embedded, "lstm_forward": ahead, "lstm_backward": behind}


def optimizer(model):
    trained = [p for p in model.parameters() if p.requires_grad]
    # the original divides by the bare root of the sum, which starts at one
    return torch.optim.Adagrad(trained, lr=0.2, initial_accumulator_value=1.0, eps=0.0)


def clip_gradients(model, max_norm):
    """As clip_grad_norm_, without the 1e-6 that it adds to the norm."""
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.stack([g.norm() for g in grads]).norm()
    factor = (max_norm / norm).clamp(max=1.0)
    for g in grads:
        g.mul_(factor)


def step(model, optimizer, scheduler, **inputs):
    optimizer.zero_grad()
    total, outputs = loss(model, **inputs)
    total.backward()
    clip_gradients(model, 0.05)
    optimizer.step()
    return total, outputs
