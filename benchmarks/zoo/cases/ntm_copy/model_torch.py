"""Neural Turing machine for the copy task."""

import torch
from torch import nn
from torch.nn import functional as F


class Controller(nn.Module):
    """An LSTM cell with gates in TensorFlow's order i, j, f, o, and 1 added to the forget gate."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.gates = nn.Linear(input_size + hidden_size, 4 * hidden_size)

    def forward(self, x, h, c):
        i, j, f, o = self.gates(torch.cat([x, h], dim=1)).chunk(4, dim=1)
        c = torch.sigmoid(f + 1.0) * c + torch.sigmoid(i) * torch.tanh(j)
        return torch.sigmoid(o) * torch.tanh(c), c


class Addressing(nn.Module):
    """Where a head looks: by content first, then by interpolation, shift and sharpening."""

    def __init__(self, memory_dim):
        super().__init__()
        self.sizes = [memory_dim, 1, 1, 3, 1]

    def forward(self, parameters, memory, previous):
        key, strength, gate, shift, sharpness = parameters.split(self.sizes, dim=1)
        key = torch.tanh(key).unsqueeze(1)
        similarity = (memory * key).sum(dim=2) / (key.norm(dim=2) * memory.norm(dim=2) + 1e-8)
        content = F.softmax(F.softplus(strength) * similarity, dim=1)
        gate = torch.sigmoid(gate)
        w = gate * content + (1 - gate) * previous
        stay, forward, back = F.softmax(shift, dim=1).split(1, dim=1)
        w = stay * w + forward * w.roll(1, dims=1) + back * w.roll(-1, dims=1)
        w = w ** (1 + F.softplus(sharpness))
        return w / w.sum(dim=1, keepdim=True)


class Memory(nn.Module):
    """Erases and then adds, where the write head looks."""

    def forward(self, memory, w_write, erase, add):
        w = w_write.unsqueeze(2)
        memory = memory * (1 - w * torch.sigmoid(erase).unsqueeze(1))
        return memory + w * torch.tanh(add).unsqueeze(1)


class Model(nn.Module):
    def __init__(self, bits=5, hidden_size=32, memory_size=10, memory_dim=8):
        super().__init__()
        self.memory_size, self.memory_dim = memory_size, memory_dim
        self.per_head = memory_dim + 6
        self.init_read = nn.Parameter(0.5 * torch.randn(memory_dim))
        self.init_w_read = nn.Parameter(0.5 * torch.randn(memory_size))
        self.init_w_write = nn.Parameter(0.5 * torch.randn(memory_size))
        self.controller = Controller(bits + 1 + memory_dim, hidden_size)
        self.heads = nn.Linear(hidden_size, 2 * self.per_head + 2 * memory_dim)
        self.addressing = Addressing(memory_dim)
        self.write = Memory()
        self.output = nn.Linear(hidden_size + memory_dim, bits)

    def forward(self, inputs, answer_length):
        batch = inputs.size(0)
        memory = inputs.new_full((batch, self.memory_size, self.memory_dim), 0.1)
        read = torch.tanh(self.init_read).expand(batch, -1)
        w_read = F.softmax(self.init_w_read, dim=0).expand(batch, -1)
        w_write = F.softmax(self.init_w_write, dim=0).expand(batch, -1)
        h = c = inputs.new_zeros(batch, self.controller.hidden_size)
        outputs, weightings = [], []
        for x in inputs.unbind(dim=1):
            h, c = self.controller(torch.cat([x, read], dim=1), h, c)
            for_read, for_write, erase, add = self.heads(h).split(
                [self.per_head, self.per_head, self.memory_dim, self.memory_dim], dim=1)
            w_read = self.addressing(for_read, memory, w_read)
            w_write = self.addressing(for_write, memory, w_write)
            read = torch.einsum("bn,bnm->bm", w_read, memory)
            memory = self.write(memory, w_write, erase, add)
            outputs.append(self.output(torch.cat([h, read], dim=1)))
            weightings.append(w_read)
        return torch.stack(outputs[-answer_length:], dim=1), torch.stack(weightings, dim=1), memory


def loss(model, inputs, targets, mask):
    logits, weightings, memory = model(inputs, targets.size(1))
    errors = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    total = (errors * mask.unsqueeze(2)).sum() / inputs.size(0)
    return total, {"logits": logits, "read_weightings": weightings, "memory": memory}
