"""The sequence classifier. Its GRU applies the reset gate to the state before the matrix product, as Cho et al. and
TensorFlow's GRUCell do; nn.GRU applies it behind, so the cell is written out."""

import torch
from torch import nn
from torch.nn import functional as F


class GRUCell(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.weight_rz = nn.Linear(input_size + hidden_size, 2 * hidden_size)
        self.weight_n = nn.Linear(input_size + hidden_size, hidden_size)

    def forward(self, x, h):
        r, z = torch.sigmoid(self.weight_rz(torch.cat([x, h], 1))).chunk(2, 1)
        n = torch.tanh(self.weight_n(torch.cat([x, r * h], 1)))
        return z * h + (1 - z) * n


class GRU(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.cell = GRUCell(input_size, hidden_size)

    def forward(self, x, lengths):
        h = x.new_zeros(x.size(0), self.cell.hidden_size)
        outputs = []
        for t in range(x.size(1)):
            new = self.cell(x[:, t], h)
            alive = (t < lengths).unsqueeze(1)
            h = torch.where(alive, new, h)
            outputs.append(new * alive)
        return torch.stack(outputs, 1)


class Model(nn.Module):
    def __init__(self, vocab_size=50, embed_dim=16, hidden_size=20, num_classes=3):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embed_dim)
        self.rnns = nn.ModuleList([GRU(embed_dim, hidden_size), GRU(hidden_size, hidden_size)])
        self.fc = nn.Linear(hidden_size, num_classes)

    def forward(self, words, lengths, keep):
        output = self.embedding(words)
        for rnn in self.rnns:
            output = rnn(output, lengths)
        last = output[torch.arange(output.size(0), device=output.device), lengths.long() - 1] * keep
        return output, last, self.fc(last)


def loss(model, words, lengths, labels, keep):
    output, last, logits = model(words.long(), lengths, keep)
    cross_entropy = F.cross_entropy(logits, labels.long())
    model = getattr(model, "module", model)  # a DDP module hides its parts
    penalty = 0.01 * 0.5 * model.fc.weight.square().sum()
    return cross_entropy + penalty, {"output": output, "last": last, "logits": logits, "cross_entropy": cross_entropy}
