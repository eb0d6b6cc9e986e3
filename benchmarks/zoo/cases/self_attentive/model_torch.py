"""A structured self-attentive sentence embedding over a bidirectional GRU, in torch."""
import torch
from torch import nn
import torch.nn.functional as F

PENALTY = 0.3


class GRUCell(nn.Module):
    """TensorFlow 1's GRU: the state is reset before the candidate's product (nn.GRU resets after it)."""

    def __init__(self, inputs, hidden):
        super().__init__()
        self.hidden = hidden
        self.gates = nn.Linear(inputs + hidden, 2 * hidden)
        self.candidate = nn.Linear(inputs + hidden, hidden)
        nn.init.ones_(self.gates.bias)

    def forward(self, x, h):
        reset, update = self.gates(torch.cat([x, h], 1)).sigmoid().chunk(2, 1)
        c = self.candidate(torch.cat([x, reset * h], 1)).tanh()
        return update * h + (1 - update) * c


class BiGRU(nn.Module):
    def __init__(self, inputs, hidden):
        super().__init__()
        self.forward_cell = GRUCell(inputs, hidden)
        self.backward_cell = GRUCell(inputs, hidden)

    def run(self, cell, x, real, times):
        h, outputs = x.new_zeros(x.size(0), cell.hidden), {}
        for t in times:
            h = torch.where(real[:, t, None], cell(x[:, t], h), h)
            outputs[t] = h * real[:, t, None]
        return torch.stack([outputs[t] for t in range(x.size(1))], 1)

    def forward(self, x, real):
        times = range(x.size(1))
        return torch.cat([self.run(self.forward_cell, x, real, times), self.run(self.backward_cell, x, real, reversed(times))], 2)


class SelfAttention(nn.Module):
    def __init__(self, width, d_a, hops):
        super().__init__()
        self.w_s1 = nn.Linear(width, d_a, bias=False)
        self.w_s2 = nn.Linear(d_a, hops, bias=False)

    def forward(self, h, real):
        scores = self.w_s2(torch.tanh(self.w_s1(h)))
        scores = scores.masked_fill(~real[:, :, None], -1e9)
        return scores.softmax(1).transpose(1, 2)


class BatchNorm(nn.BatchNorm1d):
    """Keeps the batch's biased variance, as tf.layers.batch_normalization does."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            self.running_mean.lerp_(x.mean(0), self.momentum)
            self.running_var.lerp_(x.var(0, unbiased=False), self.momentum)
            self.num_batches_tracked += 1
        return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)


class Model(nn.Module):
    def __init__(self, vocab=53, embedding=11, hidden=9, d_a=13, hops=4, fc=20, classes=3):
        super().__init__()
        self.embedding = nn.Embedding(vocab, embedding)
        self.encoder = BiGRU(embedding, hidden)
        self.attention = SelfAttention(2 * hidden, d_a, hops)
        self.fc = nn.Linear(hops * 2 * hidden, fc, bias=False)
        self.bn = BatchNorm(fc, eps=1e-3, momentum=0.1)
        self.classifier = nn.Linear(fc, classes)

    def forward(self, tokens, lengths, keep):
        real = torch.arange(tokens.size(1), device=tokens.device) < lengths[:, None]
        x = self.embedding(tokens.long())
        if self.training:
            x = x * keep[:, None]
        h = self.encoder(x, real)
        a = self.attention(h, real)
        m = a @ h
        fc = F.relu(self.bn(self.fc(m.flatten(1))))
        return {"H": h, "A": a, "sentence": m, "fc": fc, "logits": self.classifier(fc)}


def penalty(a):
    """|| A A^T - I || ** 2, the mean over the sentences."""
    eye = torch.eye(a.size(1), dtype=a.dtype, device=a.device)
    return (a @ a.transpose(1, 2) - eye).square().sum((1, 2)).mean()


def loss(model, tokens, lengths, labels, keep):
    outputs = model(tokens, lengths, keep)
    return F.cross_entropy(outputs["logits"], labels.long()) + PENALTY * penalty(outputs["A"]), outputs
