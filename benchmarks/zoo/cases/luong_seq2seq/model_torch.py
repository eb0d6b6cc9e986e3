"""LSTM encoder and decoder with Luong's general attention and input feeding."""

import torch
from torch import nn
from torch.nn import functional as F


def one_bias(rnn, hidden_size):
    """Leaves the recurrent layer one trained bias: the other is a constant 1 for the forget gate."""
    for name, parameter in rnn.named_parameters():
        if name.startswith("bias_hh"):
            nn.init.zeros_(parameter)
            parameter.data[hidden_size : 2 * hidden_size] = 1.0
            parameter.requires_grad_(False)


class Encoder(nn.Module):
    def __init__(self, vocab_size, embed_size, hidden_size):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embed_size)
        self.lstm = nn.LSTM(embed_size, hidden_size, batch_first=True)
        one_bias(self.lstm, hidden_size)

    def forward(self, source, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(source), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        outputs, (h, c) = self.lstm(packed)
        outputs, _ = nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True, total_length=source.size(1))
        return outputs, (h[0], c[0])


class LuongAttention(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.linear_in = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, query, memory, mask):
        keys = self.linear_in(memory)
        scores = torch.bmm(keys, query.unsqueeze(2)).squeeze(2)
        scores = scores.masked_fill(~mask, float("-inf"))
        weights = F.softmax(scores, dim=-1)
        context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
        return context, weights


class Decoder(nn.Module):
    def __init__(self, vocab_size, embed_size, hidden_size, attention_size):
        super().__init__()
        self.attention_size = attention_size
        self.embedding = nn.Embedding(vocab_size, embed_size)
        self.cell = nn.LSTMCell(embed_size + attention_size, hidden_size)
        one_bias(self.cell, hidden_size)
        self.attention = LuongAttention(hidden_size)
        self.linear_out = nn.Linear(2 * hidden_size, attention_size, bias=False)
        self.generator = nn.Linear(attention_size, vocab_size, bias=False)

    def forward(self, target, memory, state, mask):
        embedded = self.embedding(target)
        h, c = state
        fed = embedded.new_zeros(len(target), self.attention_size)
        attended, history = [], []
        for step in embedded.unbind(dim=1):
            h, c = self.cell(torch.cat([step, fed], dim=1), (h, c))
            context, weights = self.attention(h, memory, mask)
            fed = torch.tanh(self.linear_out(torch.cat([h, context], dim=1)))
            attended.append(fed)
            history.append(weights)
        return self.generator(torch.stack(attended, dim=1)), torch.stack(history, dim=1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder(vocab_size=30, embed_size=14, hidden_size=18)
        self.decoder = Decoder(vocab_size=26, embed_size=15, hidden_size=18, attention_size=20)

    def forward(self, source, source_length, target):
        mask = torch.arange(source.size(1), device=source.device) < source_length.unsqueeze(1)
        memory, state = self.encoder(source, source_length)
        logits, alignments = self.decoder(target, memory, state, mask)
        return memory, alignments, logits


def sequence_loss(logits, target, weights):
    losses = F.cross_entropy(logits.transpose(1, 2), target, reduction="none")
    return (losses * weights).sum() / len(target)


def loss(model, source, source_length, target_input, target_output, target_weights):
    memory, alignments, logits = model(source.long(), source_length.long(), target_input.long())
    outputs = {"encoder_outputs": memory, "alignments": alignments, "logits": logits}
    return sequence_loss(logits, target_output.long(), target_weights), outputs


def clip_gradients(parameters, max_norm):
    """By the global norm, with no epsilon in it."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = torch.sqrt(sum(g.pow(2).sum() for g in gradients))
    for g in gradients:
        g.mul_(max_norm / norm.clamp(min=max_norm))


def optimizer(model):
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.5)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + 0.4 * step))


def step(model, optimizer, scheduler, **batch):
    optimizer.zero_grad()
    total, outputs = loss(model, **batch)
    total.backward()
    clip_gradients(model.parameters(), max_norm=1.0)
    optimizer.step()
    scheduler.step()
    return total, outputs
