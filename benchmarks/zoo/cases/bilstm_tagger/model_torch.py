"""LSTM tagger on packed sequences, trained with Adam as TensorFlow defines it."""

import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Model(nn.Module):
    def __init__(self, vocab_size=80, embed_dim=16, shape_dim=3, hidden_dim=20, num_tags=5):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embed_dim)
        self.lstm = nn.LSTM(embed_dim + shape_dim, hidden_dim, batch_first=True, bidirectional=True)
        self.hidden2tag = nn.Linear(2 * hidden_dim, num_tags)
        # One trained bias per gate, as in the original; the second one only holds its constant forget bias.
        for bias in (self.lstm.bias_hh_l0, self.lstm.bias_hh_l0_reverse):
            nn.init.zeros_(bias)
            nn.init.ones_(bias[hidden_dim : 2 * hidden_dim])
            bias.requires_grad_(False)

    def forward(self, words, shapes, lengths):
        x = torch.cat([self.embedding(words), shapes], dim=-1)
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        hidden, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=words.size(1))
        return hidden, self.hidden2tag(hidden)


def loss(model, word_ids, shapes, sequence_lengths, labels):
    hidden, logits = model(word_ids.long(), shapes, sequence_lengths.long())
    padding = torch.arange(labels.size(1), device=labels.device) >= sequence_lengths[:, None]
    targets = labels.long().masked_fill(padding, -100)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten()), {"lstm": hidden, "logits": logits}


class Adam(torch.optim.Optimizer):
    """Epsilon is added to the root before the bias is corrected."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))

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
                state["exp_avg"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                lr = group["lr"] * math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
                p.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt().add_(group["eps"]), value=-lr)


def optimizer(model):
    return Adam([p for p in model.parameters() if p.requires_grad], lr=0.005, eps=1e-6)
