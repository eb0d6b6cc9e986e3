"""Word-level LSTM language model with fed dropout masks; trained by clipped SGD whose rate halves every two updates."""

import torch
from torch import nn
from torch.nn import functional as F

MAX_GRAD_NORM = 0.75


class LSTMLayer(nn.Module):
    """One LSTM layer that begins with a given state; its output goes through a dropout mask."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.lstm = nn.LSTM(input_size, hidden_size, batch_first=True)
        # the original has one bias per gate: the second one stays zero
        nn.init.zeros_(self.lstm.bias_hh_l0)
        self.lstm.bias_hh_l0.requires_grad_(False)

    def forward(self, x, state, mask):
        cell, hidden = state[:, 0].unsqueeze(0), state[:, 1].unsqueeze(0)
        output, _ = self.lstm(x, (hidden.contiguous(), cell.contiguous()))
        return output * mask


class Model(nn.Module):
    def __init__(self, vocab_size=50, embedding_size=20, hidden_size=24, num_layers=2):
        super().__init__()
        self.encoder = nn.Embedding(vocab_size, embedding_size)
        sizes = [embedding_size] + [hidden_size] * num_layers
        self.layers = nn.ModuleList(LSTMLayer(n_in, n_out) for n_in, n_out in zip(sizes[:-1], sizes[1:]))
        self.decoder = nn.Linear(hidden_size, vocab_size)

    def forward(self, tokens, state, embedding_mask, output_masks):
        x = self.encoder(tokens) * embedding_mask
        for i, layer in enumerate(self.layers):
            x = layer(x, state[:, i], output_masks[:, i])
        return x, self.decoder(x)


def loss(model, inputs, targets, state, embedding_mask, output_masks):
    output, logits = model(inputs.long(), state, embedding_mask, output_masks)
    flat = logits.reshape(-1, logits.size(-1))
    mean = F.cross_entropy(flat, targets.long().reshape(-1))
    # summed over the steps of the window, averaged over the batch
    total = mean * inputs.size(1)
    return total, {"output": output, "logits": logits, "perplexity": torch.exp(mean)}


def clip_gradients(parameters, max_norm):
    """Scales all gradients together, by exactly max_norm / norm where the norm is larger."""
    grads = [p.grad for p in parameters if p.grad is not None]
    total_norm = torch.stack([g.pow(2).sum() for g in grads]).sum().sqrt()
    scale = max_norm / total_norm.clamp(min=max_norm)
    for g in grads:
        g.mul_(scale)


def optimizer(model):
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1.0)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)


def step(model, optimizer, scheduler, **batch):
    optimizer.zero_grad()
    total, outputs = loss(model, **batch)
    total.backward()
    clip_gradients(list(model.parameters()), MAX_GRAD_NORM)
    optimizer.step()
    scheduler.step()
    return total, outputs
