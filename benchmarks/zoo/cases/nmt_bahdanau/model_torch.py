"""Attention seq2seq. The GRU is written out: nn.GRU resets behind the matrix, the original in front of it."""

import torch
from torch import nn
from torch.nn import functional as F


class GRUCell(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.gates = nn.Linear(input_size + hidden_size, 2 * hidden_size)
        self.candidate = nn.Linear(input_size + hidden_size, hidden_size)

    def forward(self, x, h):
        reset, update = torch.sigmoid(self.gates(torch.cat([x, h], dim=-1))).chunk(2, dim=-1)
        new = torch.tanh(self.candidate(torch.cat([x, reset * h], dim=-1)))
        return update * h + (1 - update) * new


class Encoder(nn.Module):
    def __init__(self, vocab_size, embed_size, hidden_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.embed = nn.Embedding(vocab_size, embed_size)
        self.rnn = GRUCell(embed_size, hidden_size)

    def forward(self, tokens, lengths):
        embedded = self.embed(tokens)
        h = embedded.new_zeros(tokens.size(0), self.hidden_size)
        outputs = []
        for t in range(tokens.size(1)):
            alive = (lengths > t).unsqueeze(1)
            new = self.rnn(embedded[:, t], h)
            outputs.append(torch.where(alive, new, torch.zeros_like(new)))
            h = torch.where(alive, new, h)
        return torch.stack(outputs, dim=1), h


class BahdanauAttention(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.query_proj = nn.Linear(hidden_size, hidden_size, bias=False)
        self.key_proj = nn.Linear(hidden_size, hidden_size, bias=False)
        self.energy = nn.Parameter(torch.rand(hidden_size) - 0.5)

    def forward(self, query, keys, memory, mask):
        scores = torch.tanh(keys + self.query_proj(query).unsqueeze(1)) @ self.energy
        weights = F.softmax(scores.masked_fill(~mask, float("-inf")), dim=1)
        return torch.bmm(weights.unsqueeze(1), memory).squeeze(1), weights


class Decoder(nn.Module):
    def __init__(self, vocab_size, embed_size, hidden_size):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, embed_size)
        self.rnn = GRUCell(embed_size + hidden_size, hidden_size)
        self.attention = BahdanauAttention(hidden_size)
        self.combine = nn.Linear(2 * hidden_size, hidden_size, bias=False)
        self.out = nn.Linear(hidden_size, vocab_size, bias=False)

    def forward(self, tokens, memory, h, mask):
        keys = self.attention.key_proj(memory)
        embedded = self.embed(tokens)
        attended = torch.zeros_like(h)
        outputs, alignments = [], []
        for t in range(tokens.size(1)):
            h = self.rnn(torch.cat([embedded[:, t], attended], dim=1), h)
            context, weights = self.attention(h, keys, memory, mask)
            attended = torch.tanh(self.combine(torch.cat([h, context], dim=1)))
            outputs.append(attended)
            alignments.append(weights)
        return self.out(torch.stack(outputs, dim=1)), torch.stack(alignments, dim=1)


class Model(nn.Module):
    def __init__(self, source_vocab=40, target_vocab=40, embed_size=16, hidden_size=24):
        super().__init__()
        self.encoder = Encoder(source_vocab, embed_size, hidden_size)
        self.decoder = Decoder(target_vocab, embed_size, hidden_size)

    def forward(self, source, source_length, target_input):
        memory, state = self.encoder(source, source_length)
        mask = torch.arange(source.size(1), device=source.device)[None, :] < source_length[:, None]
        logits, alignments = self.decoder(target_input, memory, state, mask)
        return memory, state, logits, alignments


def loss(model, source, source_length, target_input, target_output, target_weights):
    memory, state, logits, alignments = model(source.long(), source_length, target_input.long())
    crossent = F.cross_entropy(logits.transpose(1, 2), target_output.long(), reduction="none")
    total = (crossent * target_weights).sum() / source.size(0)
    return total, {"encoder_outputs": memory, "encoder_state": state, "alignments": alignments, "logits": logits}
