"""DMN+ in torch. The GRU cells reset the state before the product, which nn.GRU does not."""

import torch
from torch import nn
from torch.nn import functional as F


class GRU(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.gates = nn.Linear(input_size + hidden_size, 2 * hidden_size)
        self.candidate = nn.Linear(input_size + hidden_size, hidden_size)

    def cell(self, x, h):
        r, u = torch.sigmoid(self.gates(torch.cat([x, h], dim=1))).chunk(2, dim=1)
        c = torch.tanh(self.candidate(torch.cat([x, r * h], dim=1)))
        return u * h + (1 - u) * c

    def forward(self, x, lengths, reverse=False):
        """States of all steps, zero behind the end, and the last state within each length."""
        h = x.new_zeros(x.size(0), self.hidden_size)
        states = [None] * x.size(1)
        order = range(x.size(1))
        for t in reversed(order) if reverse else order:
            alive = (t < lengths).unsqueeze(1)
            new = self.cell(x[:, t], h)
            states[t] = new.masked_fill(~alive, 0.0)
            h = torch.where(alive, new, h)
        return torch.stack(states, dim=1), h


class AttentionGRU(nn.Module):
    """The update gate is the attention on the fact."""

    def __init__(self, size):
        super().__init__()
        self.reset = nn.Linear(2 * size, size)
        self.from_state = nn.Linear(size, size, bias=False)
        self.from_input = nn.Linear(size, size)

    def forward(self, facts, attention, lengths, state=None):
        h = torch.zeros_like(facts[:, 0]) if state is None else state
        for t in range(facts.size(1)):
            x, g = facts[:, t], attention[:, t].unsqueeze(1)
            r = torch.sigmoid(self.reset(torch.cat([x, h], dim=1)))
            proposal = torch.tanh(r * self.from_state(h) + self.from_input(x))
            new = (1 - g) * h + g * proposal
            h = torch.where((t < lengths).unsqueeze(1), new, h)
        return h


class EpisodicMemory(nn.Module):
    def __init__(self, size, hops):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(4 * size, size), nn.Tanh(), nn.Linear(size, 1, bias=False))
        self.episode = AttentionGRU(size)
        self.rewrite = nn.ModuleList(nn.Linear(3 * size, size) for _ in range(hops))

    def forward(self, facts, question, lengths):
        valid = torch.arange(facts.size(1), device=facts.device) < lengths.unsqueeze(1)
        memory, attentions = question, []
        q = question.unsqueeze(1)
        for layer in self.rewrite:
            m = memory.unsqueeze(1)
            z = torch.cat([facts * q, facts * m, (facts - q).abs(), (facts - m).abs()], dim=2)
            scores = self.score(z).squeeze(2).masked_fill(~valid, -1e9)
            attention = scores.softmax(dim=1)
            context = self.episode(facts, attention, lengths)
            memory = F.relu(layer(torch.cat([memory, context, question], dim=1)))
            attentions.append(attention)
        return memory, attentions


def position_encoding(words, dim):
    i = torch.arange(1, dim + 1, dtype=torch.float64) - dim / 2
    j = torch.arange(1, words + 1, dtype=torch.float64) - words / 2
    return 1 + 4 * torch.outer(j, i) / dim / words


class Model(nn.Module):
    def __init__(self, vocab=24, size=8, fact_words=4, hops=3):
        super().__init__()
        self.words = nn.Embedding(vocab, size)
        self.register_buffer("position", position_encoding(fact_words, size).float(), persistent=False)
        self.ahead = GRU(size, size)
        self.back = GRU(size, size)
        self.question_encoder = GRU(size, size)
        self.memory = EpisodicMemory(size, hops)
        self.answer = nn.Linear(2 * size, vocab)

    def forward(self, facts, fact_counts, question, question_lengths, fact_keep):
        sentences = (self.words(facts) * self.position).sum(dim=2)
        encoded = self.ahead(sentences, fact_counts)[0] + self.back(sentences, fact_counts, reverse=True)[0]
        if self.training:
            encoded = encoded * fact_keep
        _, q = self.question_encoder(self.words(question), question_lengths)
        memory, attentions = self.memory(encoded, q, fact_counts)
        out = {"facts": encoded, "question": q, "logits": self.answer(torch.cat([memory, q], dim=1))}
        out.update(("gates_%d" % hop, attention) for hop, attention in enumerate(attentions))
        return out


def loss(model, facts, fact_counts, question, question_lengths, answers, fact_keep):
    out = model(facts.long(), fact_counts.long(), question.long(), question_lengths.long(), fact_keep)
    total = F.cross_entropy(out["logits"], answers.long(), reduction="sum")
    l2 = sum(p.pow(2).sum() for name, p in model.named_parameters() if "bias" not in name)
    return total + 0.5 * 1e-3 * l2, out


def step(model, optimizer, scheduler, **inputs):
    optimizer.zero_grad()
    total, out = loss(model, **inputs)
    total.backward()
    # every gradient by its own norm, as tf.clip_by_norm does
    for p in model.parameters():
        p.grad.mul_(1.5 / p.grad.norm().clamp(min=1.5))
    optimizer.step()
    return total, out
