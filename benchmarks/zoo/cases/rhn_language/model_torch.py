import torch
import torch.nn.functional as F
from torch import nn


class RecurrentHighway(nn.Module):
    """In every time step the state goes through `depth` highway layers, the first of which sees the input too."""

    def __init__(self, inputs, hidden, depth, gate_bias=-2.0):
        super().__init__()
        self.hidden = hidden
        sizes = [inputs + hidden] + [hidden] * (depth - 1)
        self.candidate = nn.ModuleList(nn.Linear(n, hidden) for n in sizes)
        self.gate = nn.ModuleList(nn.Linear(n, hidden) for n in sizes)
        for gate in self.gate:
            nn.init.constant_(gate.bias, gate_bias)

    def step(self, x, state, drop_state):
        for k, (candidate, gate) in enumerate(zip(self.candidate, self.gate)):
            seen = state * drop_state
            if k == 0:
                seen = torch.cat([x, seen], dim=1)
            t = torch.sigmoid(gate(seen))
            state = t * torch.tanh(candidate(seen)) + (1 - t) * state
        return state

    def forward(self, x, drop_input, drop_state):
        state = x.new_zeros(x.size(0), self.hidden)
        states = []
        for now in (x * drop_input.unsqueeze(1)).unbind(1):
            state = self.step(now, state, drop_state)
            states.append(state)
        return torch.stack(states, dim=1)


class Model(nn.Module):
    def __init__(self, vocab=32, hidden=20, depth=3, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(vocab, hidden)
        self.layers = nn.ModuleList(RecurrentHighway(hidden, hidden, depth) for _ in range(layers))
        self.output_bias = nn.Parameter(torch.zeros(vocab))

    def forward(self, words, noise_x, noise_i, noise_h, noise_o):
        x = self.embedding(words) * noise_x
        for layer, drop_input, drop_state in zip(self.layers, noise_i.unbind(2), noise_h.unbind(2)):
            x = layer(x, drop_input, drop_state)
        return x, F.linear(x * noise_o, self.embedding.weight, self.output_bias)


def loss(model, input_data, targets, noise_x, noise_i, noise_h, noise_o):
    states, logits = model(input_data.long(), noise_x, noise_i, noise_h, noise_o)
    per_word = F.cross_entropy(logits.flatten(0, 1), targets.flatten().long())
    return per_word * targets.size(1), {"states": states, "logits": logits, "per_word": per_word}


def rate(step):
    return 0.2 * 0.5 ** (step // 2)
