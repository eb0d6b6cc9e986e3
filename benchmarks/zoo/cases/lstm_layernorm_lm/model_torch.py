"""Word-level language model with layer-normalised LSTM cells."""

import torch
from torch import nn
from torch.nn import functional as F


class LayerNormLSTMCell(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.gates = nn.Linear(input_size + hidden_size, 4 * hidden_size, bias=False)
        self.norm_i = nn.LayerNorm(hidden_size, eps=1e-12)
        self.norm_g = nn.LayerNorm(hidden_size, eps=1e-12)
        self.norm_f = nn.LayerNorm(hidden_size, eps=1e-12)
        self.norm_o = nn.LayerNorm(hidden_size, eps=1e-12)
        self.norm_c = nn.LayerNorm(hidden_size, eps=1e-12)

    def forward(self, x, state):
        h, c = state
        i, g, f, o = self.gates(torch.cat([x, h], dim=1)).chunk(4, dim=1)
        keep = torch.sigmoid(self.norm_f(f) + 1.0)
        cell = keep * c + torch.sigmoid(self.norm_i(i)) * torch.tanh(self.norm_g(g))
        c = self.norm_c(cell)
        h = torch.sigmoid(self.norm_o(o)) * torch.tanh(c)
        return h, c


class LanguageModel(nn.Module):
    def __init__(self, vocab_size=40, embedding_size=12, hidden_size=14, num_layers=2):
        super().__init__()
        self.encoder = nn.Embedding(vocab_size, embedding_size)
        sizes = [embedding_size] + [hidden_size] * (num_layers - 1)
        self.cells = nn.ModuleList(LayerNormLSTMCell(size, hidden_size) for size in sizes)
        self.decoder = nn.Linear(hidden_size, vocab_size)

    def forward(self, tokens, carried):
        """carried: c and h of every layer, [batch, layers, 2, hidden]."""
        hidden = [(carried[:, n, 1], carried[:, n, 0]) for n in range(len(self.cells))]
        embedded = self.encoder(tokens)
        outputs = []
        for t in range(tokens.size(1)):
            x = embedded[:, t]
            for n, cell in enumerate(self.cells):
                hidden[n] = cell(x, hidden[n])
                x = hidden[n][0]
            outputs.append(x)
        output = torch.stack(outputs, dim=1).flatten(0, 1)
        return output, self.decoder(output), hidden[-1][1]


def loss(model, x, y, w, state):
    output, logits, final_c = model(x.long(), state)
    nll = F.cross_entropy(logits, y.long().flatten(), reduction="none").view_as(w) * w
    total = (nll.sum(dim=0) / (w.sum(dim=0) + 1e-12)).sum()
    return total, {"output": output, "logits": logits, "final_c": final_c}


def optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.1, initial_accumulator_value=1.0, eps=0.0)
