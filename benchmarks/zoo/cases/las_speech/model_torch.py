"""Listen, attend and spell: pyramidal BLSTM listener, attention speller with teacher forcing."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def single_bias(lstm):
    """TensorFlow's cell has one bias, and adds 1 to the forget gate: bias_hh holds this 1 and is not trained."""
    for name, parameter in lstm.named_parameters():
        if name.startswith("bias_hh"):
            parameter.requires_grad = False
            parameter.zero_()
            parameter[lstm.hidden_size : 2 * lstm.hidden_size] = 1.0
    return lstm


class BLSTM(nn.Module):
    """Runs over sequences of several lengths; frames behind the end come out as 0."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.rnn = single_bias(nn.LSTM(input_size, hidden_size, batch_first=True, bidirectional=True))

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        packed, _ = self.rnn(packed)
        return pad_packed_sequence(packed, batch_first=True, total_length=x.size(1))[0]


class Listener(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.blstm = BLSTM(input_size, hidden_size)
        self.pyramid = nn.ModuleList(BLSTM(4 * hidden_size, hidden_size) for _ in range(2))

    def forward(self, x, lengths):
        x = self.blstm(x, lengths)
        for layer in self.pyramid:
            x = torch.cat([x[:, 0::2], x[:, 1::2]], dim=-1)
            lengths = (lengths + 1) // 2
            x = layer(x, lengths)
        return x, lengths


class Attention(nn.Module):
    def __init__(self, state_size, value_size, attention_size):
        super().__init__()
        self.phi = nn.Linear(state_size, attention_size)
        self.psi = nn.Linear(value_size, attention_size)

    def keys(self, values):
        return F.relu(self.psi(values))

    def forward(self, state, keys, values, padding):
        query = F.relu(self.phi(state))
        energy = torch.bmm(keys, query.unsqueeze(2)).squeeze(2)
        energy = energy.masked_fill(padding, float("-inf"))
        alignment = F.softmax(energy, dim=-1)
        return torch.bmm(alignment.unsqueeze(1), values).squeeze(1), alignment


class Speller(nn.Module):
    def __init__(self, vocab_size, embedding_size, value_size, hidden_size, attention_size, sos=1):
        super().__init__()
        self.sos, self.hidden_size = sos, hidden_size
        self.embedding = nn.Embedding(vocab_size, embedding_size)
        self.cells = nn.ModuleList([
            single_bias(nn.LSTMCell(embedding_size + value_size, hidden_size)),
            single_bias(nn.LSTMCell(hidden_size, hidden_size)),
        ])
        self.attention = Attention(hidden_size, value_size, attention_size)
        self.mlp = nn.Linear(hidden_size + value_size, hidden_size)
        self.character_distribution = nn.Linear(hidden_size, vocab_size)

    def forward(self, values, lengths, targets):
        batch = values.size(0)
        padding = torch.arange(values.size(1), device=values.device)[None, :] >= lengths[:, None]
        keys = self.attention.keys(values)
        embedded = self.embedding(F.pad(targets[:, :-1], (1, 0), value=self.sos))
        zeros = values.new_zeros(batch, self.hidden_size)
        states = [(zeros, zeros) for _ in self.cells]
        context = values.new_zeros(batch, values.size(2))
        outputs, alignments = [], []
        for step in range(targets.size(1)):
            x = torch.cat([embedded[:, step], context], dim=-1)
            for i, cell in enumerate(self.cells):
                states[i] = cell(x, states[i])
                x = states[i][0]
            context, alignment = self.attention(x, keys, values, padding)
            outputs.append(torch.cat([x, context], dim=-1))
            alignments.append(alignment)
        hidden = torch.tanh(self.mlp(torch.stack(outputs, dim=1)))
        return self.character_distribution(hidden), torch.stack(alignments, dim=1)


class Model(nn.Module):
    def __init__(self, mels=6, vocab_size=14):
        super().__init__()
        self.listener = Listener(mels, hidden_size=8)
        self.speller = Speller(vocab_size, 8, value_size=16, hidden_size=16, attention_size=12)

    def forward(self, features, lengths, targets):
        listened, reduced = self.listener(features, lengths)
        logits, alignments = self.speller(listened, reduced, targets)
        return listened, alignments, logits


def loss(model, features, lengths, targets, weights):
    targets = targets.long()
    listened, alignments, logits = model(features, lengths.long(), targets)
    xent = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    total = (xent * weights).sum(dim=1).mean()
    with torch.no_grad():
        accuracy = ((logits.argmax(-1) == targets) * weights).sum() / weights.sum()
    return total, {"listened": listened, "alignments": alignments, "logits": logits, "accuracy": accuracy}


def optimizer(model):
    trained = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.Adadelta(trained, lr=1.0, rho=0.95, eps=1e-6)


def clip_by_global_norm(parameters, limit):
    """Without the 1e-6 that clip_grad_norm_ adds to the norm."""
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.stack([grad.norm() for grad in grads]).norm()
    for grad in grads:
        grad.mul_(limit / norm.clamp(min=limit))


def step(model, optimizer, scheduler, features, lengths, targets, weights):
    optimizer.zero_grad()
    total, outputs = loss(model, features, lengths, targets, weights)
    total.backward()
    clip_by_global_norm(model.parameters(), 1.0)
    optimizer.step()
    return total, outputs
