"""The ELECTRA discriminator, in the layout that BERT models have in torch."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Embeddings(nn.Module):
    def __init__(self, vocab_size, embedding_size, max_positions, type_vocab_size):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab_size, embedding_size)
        self.position_embeddings = nn.Embedding(max_positions, embedding_size)
        self.token_type_embeddings = nn.Embedding(type_vocab_size, embedding_size)
        self.norm = nn.LayerNorm(embedding_size, eps=1e-12)

    def forward(self, input_ids, token_type_ids):
        positions = torch.arange(input_ids.size(1), device=input_ids.device)
        words = self.word_embeddings(input_ids)
        types = self.token_type_embeddings(token_type_ids)
        return self.norm(words + types + self.position_embeddings(positions))


class SelfAttention(nn.Module):
    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)
        self.out = nn.Linear(hidden_size, hidden_size)

    def split(self, x):
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def forward(self, x, mask):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
        scores = scores.masked_fill(~mask[:, None, None, :], -1e4)
        context = scores.softmax(dim=-1) @ v
        return self.out(context.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, hidden_size, num_heads, intermediate_size):
        super().__init__()
        self.attention = SelfAttention(hidden_size, num_heads)
        self.attention_norm = nn.LayerNorm(hidden_size, eps=1e-12)
        self.intermediate = nn.Linear(hidden_size, intermediate_size)
        self.output = nn.Linear(intermediate_size, hidden_size)
        self.output_norm = nn.LayerNorm(hidden_size, eps=1e-12)

    def forward(self, x, mask):
        x = self.attention_norm(self.attention(x, mask) + x)
        h = F.gelu(self.intermediate(x), approximate="tanh")
        return self.output_norm(self.output(h) + x)


class DiscriminatorHead(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.dense = nn.Linear(hidden_size, hidden_size)
        self.dense_prediction = nn.Linear(hidden_size, 1)

    def forward(self, x):
        h = self.dense(x)
        h = F.gelu(h, approximate="tanh")
        return self.dense_prediction(h).squeeze(-1)


class Model(nn.Module):
    def __init__(self, vocab_size=53, embedding_size=20, hidden_size=32, num_layers=2, num_heads=4, intermediate_size=56):
        super().__init__()
        self.embeddings = Embeddings(vocab_size, embedding_size, max_positions=16, type_vocab_size=2)
        self.embeddings_project = nn.Linear(embedding_size, hidden_size)
        self.layers = nn.ModuleList(Layer(hidden_size, num_heads, intermediate_size) for _ in range(num_layers))
        self.head = DiscriminatorHead(hidden_size)

    def forward(self, input_ids, mask, token_type_ids):
        embedded = self.embeddings(input_ids, token_type_ids)
        x = self.embeddings_project(embedded)
        for layer in self.layers:
            x = layer(x, mask)
        return embedded, x, self.head(x)


def corrupt(input_ids, positions, weights, sampled_ids):
    """Writes the generator's tokens into the sequence; unused predictions go to a column that is thrown away."""
    length = input_ids.size(1)
    positions = torch.where(weights > 0, positions, length)
    return F.pad(input_ids, (0, 1)).scatter(1, positions, sampled_ids)[:, :length]


def loss(model, input_ids, input_mask, segment_ids, masked_lm_positions, masked_lm_weights, sampled_ids):
    input_ids = input_ids.long()
    corrupted = corrupt(input_ids, masked_lm_positions.long(), masked_lm_weights, sampled_ids.long())
    embedded, hidden, logits = model(corrupted, input_mask.bool(), segment_ids.long())
    is_replaced = corrupted != input_ids
    losses = F.binary_cross_entropy_with_logits(logits, is_replaced.to(logits.dtype), reduction="none")
    disc_loss = (losses * input_mask).sum() / (1e-6 + input_mask.sum())
    return 50.0 * disc_loss, {
        "embedded": embedded,
        "sequence_output": hidden,
        "logits": logits,
        "disc_loss": disc_loss,
    }
