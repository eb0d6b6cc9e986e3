"""A GRU translator with additive attention and coverage."""

import torch
from torch import nn
from torch.nn import functional as F

GO = 1


class GRUCell(nn.Module):
    """Resets the state in front of the product with it, which nn.GRUCell does behind."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.gates = nn.Linear(input_size + hidden_size, 2 * hidden_size)
        self.candidate = nn.Linear(input_size + hidden_size, hidden_size)

    def forward(self, x, h):
        reset, update = torch.sigmoid(self.gates(torch.cat([x, h], dim=1))).chunk(2, dim=1)
        new = torch.tanh(self.candidate(torch.cat([x, reset * h], dim=1)))
        return update * h + (1 - update) * new


class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.forward_cell = GRUCell(embedding_dim, hidden_size)
        self.backward_cell = GRUCell(embedding_dim, hidden_size)

    def run(self, cell, inputs, mask, steps):
        h = inputs.new_zeros(inputs.size(0), self.hidden_size)
        outputs = {}
        for t in steps:
            h = torch.where(mask[:, t, None] > 0, cell(inputs[:, t], h), h)
            outputs[t] = h
        return outputs

    def forward(self, source, mask):
        inputs = self.embedding(source)
        length = source.size(1)
        ahead = self.run(self.forward_cell, inputs, mask, range(length))
        back = self.run(self.backward_cell, inputs, mask, reversed(range(length)))
        return torch.stack([torch.cat([ahead[t], back[t]], dim=1) for t in range(length)], dim=1)


class Attention(nn.Module):
    def __init__(self, query_size, memory_size, attention_size):
        super().__init__()
        self.query = nn.Linear(query_size, attention_size)
        self.memory = nn.Linear(memory_size, attention_size, bias=False)
        self.coverage = nn.Linear(1, attention_size, bias=False)
        self.score = nn.Linear(attention_size, 1, bias=False)

    def forward(self, state, keys, mask, coverage):
        features = keys + self.query(state).unsqueeze(1) + self.coverage(coverage.unsqueeze(2))
        scores = self.score(torch.tanh(features)).squeeze(2)
        scores = scores.masked_fill(mask == 0, float("-inf"))
        return scores.softmax(dim=1)


class Decoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, memory_size, hidden_size, attention_size):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.initial = nn.Linear(memory_size, hidden_size)
        self.attention = Attention(hidden_size, memory_size, attention_size)
        self.cell = GRUCell(embedding_dim + memory_size, hidden_size)
        self.readout = nn.Linear(hidden_size + memory_size, hidden_size)
        self.out = nn.Linear(hidden_size, vocab_size)

    def forward(self, memory, mask, target, sampled, use_sample):
        teacher = F.pad(target[:, :-1], (1, 0), value=GO)
        inputs = self.embedding(torch.where(use_sample.bool(), sampled, teacher))
        mean = (memory * mask.unsqueeze(2)).sum(1) / mask.sum(1, keepdim=True)
        h = torch.tanh(self.initial(mean))
        keys = self.attention.memory(memory)
        context = torch.zeros_like(memory[:, 0])
        coverage = torch.zeros_like(mask)
        outputs, weights, penalties = [], [], []
        for x in inputs.unbind(dim=1):
            h = self.cell(torch.cat([x, context], dim=1), h)
            attn = self.attention(h, keys, mask, coverage)
            context = torch.einsum("bs,bsd->bd", attn, memory)
            penalties.append(torch.minimum(attn, coverage).sum(1))
            coverage = coverage + attn
            weights.append(attn)
            outputs.append(torch.cat([h, context], dim=1))
        logits = self.out(torch.tanh(self.readout(torch.stack(outputs, dim=1))))
        return logits, torch.stack(weights, dim=1), torch.stack(penalties, dim=1)


class Model(nn.Module):
    def __init__(self, source_vocab=41, target_vocab=37, embedding_dim=14, encoder_size=20, decoder_size=26):
        super().__init__()
        self.encoder = Encoder(source_vocab, embedding_dim, encoder_size)
        self.decoder = Decoder(target_vocab, embedding_dim, 2 * encoder_size, decoder_size, attention_size=18)

    def forward(self, source, source_mask, target, sampled, use_sample):
        memory = self.encoder(source, source_mask)
        return memory, *self.decoder(memory, source_mask, target, sampled, use_sample)


def loss(model, source, source_mask, target, target_mask, sampled, use_sample):
    memory, logits, weights, penalties = model(source.long(), source_mask, target.long(), sampled.long(), use_sample)
    losses = F.cross_entropy(logits.transpose(1, 2), target.long(), reduction="none")
    nll = (losses * target_mask).sum(dim=1).mean()
    coverage_loss = (penalties * target_mask).sum(dim=1).mean()
    outputs = {"encoder_states": memory, "attention": weights, "logits": logits, "nll": nll,
               "coverage_loss": coverage_loss}
    return nll + coverage_loss, outputs


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + 0.5 * step / 2))


def clip_by_global_norm(parameters, limit):
    """Without the 1e-6 that clip_grad_norm_ adds to the norm."""
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.stack([g.norm() for g in grads]).norm()
    for g in grads:
        g.mul_(limit / norm.clamp(min=limit))


def step(model, optimizer, scheduler, **inputs):
    optimizer.zero_grad()
    total, outputs = loss(model, **inputs)
    total.backward()
    clip_by_global_norm(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    return total, outputs
