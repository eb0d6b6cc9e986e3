import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

SMOOTHING = 0.1


class LSTM(nn.LSTM):
    """Remembers at first: the forget gates get 1 from the second bias, which is no weight here."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, batch_first=True, **kwargs)
        for name, p in self.named_parameters():
            nn.init.uniform_(p, -0.3, 0.3)
            if name.startswith("bias_hh"):
                p.requires_grad_(False).zero_()
                p[self.hidden_size:2 * self.hidden_size].fill_(1.0)


class Encoder(nn.Module):
    def __init__(self, vocab, hidden):
        super().__init__()
        self.embedder = nn.Embedding(vocab, hidden)
        self.bi = LSTM(hidden, hidden, bidirectional=True)
        self.layers = nn.ModuleList([LSTM(2 * hidden, hidden), LSTM(hidden, hidden)])

    @staticmethod
    def packed(lstm, x, lengths):
        pack = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, state = lstm(pack)
        return pad_packed_sequence(out, batch_first=True, total_length=x.size(1))[0], state

    def forward(self, source, lengths):
        x = self.embedder(source)
        x, (h, c) = self.packed(self.bi, x, lengths)
        states = [(h[1:], c[1:])]
        for i, layer in enumerate(self.layers):
            out, state = self.packed(layer, x, lengths)
            x = out + x if i > 0 else out
            states.append(state)
        return x, states


class BahdanauAttention(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.linear_q = nn.Linear(hidden, hidden, bias=False)
        self.linear_k = nn.Linear(hidden, hidden, bias=False)
        self.linear_att = nn.Parameter(torch.empty(hidden))
        self.normalize_scalar = nn.Parameter(torch.tensor(hidden ** -0.5))
        self.normalize_bias = nn.Parameter(torch.zeros(hidden))
        for p in (self.linear_q.weight, self.linear_k.weight, self.linear_att):
            nn.init.uniform_(p, -0.3, 0.3)

    def forward(self, query, memory, lengths):
        energy = self.linear_q(query).unsqueeze(2) + self.linear_k(memory).unsqueeze(1) + self.normalize_bias
        direction = self.linear_att / self.linear_att.norm() * self.normalize_scalar
        scores = torch.tanh(energy).matmul(direction)
        padding = torch.arange(memory.size(1), device=lengths.device) >= lengths.unsqueeze(1)
        scores.masked_fill_(padding.unsqueeze(1), float("-inf"))
        alignments = F.softmax(scores, dim=-1)
        return alignments, torch.bmm(alignments, memory)


class Decoder(nn.Module):
    def __init__(self, vocab, hidden):
        super().__init__()
        self.embedder = nn.Embedding(vocab, hidden)
        self.att_rnn = LSTM(hidden, hidden)
        self.attention = BahdanauAttention(hidden)
        self.layers = nn.ModuleList([LSTM(2 * hidden, hidden) for _ in range(2)])
        self.classifier = nn.Linear(hidden, vocab, bias=False)
        nn.init.uniform_(self.classifier.weight, -0.3, 0.3)

    def forward(self, given, memory, lengths, states):
        x, _ = self.att_rnn(self.embedder(given), states[0])
        alignments, context = self.attention(x, memory, lengths)
        x, _ = self.layers[0](torch.cat((x, context), dim=2), states[1])
        for layer, state in zip(self.layers[1:], states[2:]):
            residual = x
            x, _ = layer(torch.cat((x, context), dim=2), state)
            x = x + residual
        return alignments, context, x, self.classifier(x)


class Model(nn.Module):
    def __init__(self, source_vocab=26, target_vocab=22, hidden=12):
        super().__init__()
        self.encoder = Encoder(source_vocab, hidden)
        self.decoder = Decoder(target_vocab, hidden)
        for table in (self.encoder.embedder, self.decoder.embedder):
            nn.init.uniform_(table.weight, -0.3, 0.3)

    def forward(self, source, lengths, given):
        memory, states = self.encoder(source, lengths)
        return (memory, *self.decoder(given, memory, lengths, states))


def loss(model, source, source_length, target_input, target_output, target_weights):
    memory, alignments, context, decoded, logits = model(source.long(), source_length.long(), target_input.long())
    log_p = F.log_softmax(logits, dim=-1)
    nll = -log_p.gather(-1, target_output.long().unsqueeze(-1)).squeeze(-1)
    words = (1.0 - SMOOTHING) * nll - SMOOTHING * log_p.mean(dim=-1)
    total = (words * target_weights).sum() / source.size(0)
    return total, {"memory": memory, "alignments": alignments, "context": context, "decoded": decoded, "logits": logits}


def optimizer(model):
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.4)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2], gamma=0.5)


def clip_by_global_norm(parameters, limit):
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in grads]))
    for g in grads:
        g.mul_(limit / norm.clamp(min=limit))


def step(model, optimizer, scheduler, **batch):
    optimizer.zero_grad()
    total, outputs = loss(model, **batch)
    total.backward()
    clip_by_global_norm(model.parameters(), 0.4)
    optimizer.step()
    scheduler.step()
    return total, outputs
