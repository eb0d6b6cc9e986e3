import torch
from torch import nn
from torch.nn import functional as F


class GRUCell(nn.Module):
    """A GRU whose reset gate acts on the state before the candidate's product."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.gates = nn.Linear(input_size + hidden_size, 2 * hidden_size)
        self.candidate = nn.Linear(input_size + hidden_size, hidden_size)
        nn.init.ones_(self.gates.bias)
        nn.init.zeros_(self.candidate.bias)

    def forward(self, x, h):
        r, u = self.gates(torch.cat([x, h], dim=-1)).sigmoid().chunk(2, dim=-1)
        c = self.candidate(torch.cat([x, r * h], dim=-1)).tanh()
        return u * h + (1 - u) * c


def flip_by_length(x, lengths):
    """Reverses the first `lengths` steps of each row and leaves the padding where it is."""
    steps = torch.arange(x.size(1), device=x.device).expand(x.size(0), -1)
    ends = lengths.unsqueeze(1)
    index = torch.where(steps < ends, ends - 1 - steps, steps)
    return x.gather(1, index.unsqueeze(-1).expand_as(x))


class BiGRU(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.forward_cell = GRUCell(input_size, hidden_size)
        self.backward_cell = GRUCell(input_size, hidden_size)

    def run(self, cell, x, lengths):
        h = x.new_zeros(x.size(0), cell.hidden_size)
        outputs = []
        for t in range(x.size(1)):
            alive = (t < lengths).unsqueeze(1)
            new = cell(x[:, t], h)
            h = torch.where(alive, new, h)
            outputs.append(torch.where(alive, new, torch.zeros_like(new)))
        return torch.stack(outputs, dim=1), h

    def forward(self, x, lengths):
        fw, fw_state = self.run(self.forward_cell, x, lengths)
        bw, bw_state = self.run(self.backward_cell, flip_by_length(x, lengths), lengths)
        bw = flip_by_length(bw, lengths)
        return torch.cat([fw, bw], dim=-1), torch.cat([fw_state, bw_state], dim=-1)


class Encoder(nn.Module):
    def __init__(self, input_size, hidden_size, num_layers):
        super().__init__()
        sizes = [input_size] + [2 * hidden_size] * (num_layers - 1)
        self.rnns = nn.ModuleList(BiGRU(size, hidden_size) for size in sizes)

    def forward(self, x, lengths):
        outputs = []
        for rnn in self.rnns:
            x, _ = rnn(x, lengths)
            outputs.append(x)
        return torch.cat(outputs, dim=-1)


class GatedAttention(nn.Module):
    def __init__(self, input_size, memory_size, hidden_size):
        super().__init__()
        self.scale = hidden_size ** 0.5
        self.query = nn.Sequential(nn.Linear(input_size, hidden_size, bias=False), nn.ReLU())
        self.key = nn.Sequential(nn.Linear(memory_size, hidden_size, bias=False), nn.ReLU())
        self.gate = nn.Linear(input_size + memory_size, input_size + memory_size, bias=False)

    def forward(self, x, memory, mask):
        scores = torch.bmm(self.query(x), self.key(memory).transpose(1, 2)) / self.scale
        scores = scores.masked_fill(~mask.unsqueeze(1), -1e30)
        out = torch.cat([x, torch.bmm(scores.softmax(dim=-1), memory)], dim=-1)
        return out * torch.sigmoid(self.gate(out))


class AttentionPooling(nn.Module):
    def __init__(self, size, hidden_size):
        super().__init__()
        self.proj = nn.Linear(size, hidden_size)
        self.score = nn.Linear(hidden_size, 1, bias=False)

    def forward(self, memory, mask):
        s = self.score(torch.tanh(self.proj(memory))).squeeze(-1)
        a = s.masked_fill(~mask, -1e30).softmax(dim=-1)
        return torch.einsum("bt,btd->bd", a, memory)


class PointerNet(nn.Module):
    def __init__(self, size, hidden_size):
        super().__init__()
        self.proj = nn.Linear(2 * size, hidden_size, bias=False)
        self.score = nn.Linear(hidden_size, 1, bias=False)
        self.cell = GRUCell(size, size)

    def attend(self, passage, state, mask):
        joined = torch.cat([state.unsqueeze(1).expand(-1, passage.size(1), -1), passage], dim=-1)
        logits = self.score(torch.tanh(self.proj(joined))).squeeze(-1).masked_fill(~mask, -1e30)
        return torch.einsum("bt,btd->bd", logits.softmax(dim=-1), passage), logits

    def forward(self, passage, state, mask):
        found, start = self.attend(passage, state, mask)
        state = self.cell(found, state)
        _, end = self.attend(passage, state, mask)
        return start, end


class RNet(nn.Module):
    def __init__(self, words=45, chars=18, word_dim=9, char_dim=5, char_hidden=4, hidden=6, layers=2):
        super().__init__()
        self.hidden = hidden
        self.word_emb = nn.Embedding(words, word_dim)
        self.char_emb = nn.Embedding(chars, char_dim)
        self.char_rnn = BiGRU(char_dim, char_hidden)
        self.encoder = Encoder(word_dim + 2 * char_hidden, hidden, layers)
        encoded = 2 * hidden * layers
        self.pair = GatedAttention(encoded, encoded, hidden)
        self.pair_rnn = BiGRU(2 * encoded, hidden)
        self.match = GatedAttention(2 * hidden, 2 * hidden, hidden)
        self.match_rnn = BiGRU(4 * hidden, hidden)
        self.pooling = AttentionPooling(2 * hidden, hidden)
        self.pointer = PointerNet(2 * hidden, hidden)

    def embed(self, words, chars):
        n, t, letters = chars.shape
        flat = chars.reshape(n * t, letters)
        _, state = self.char_rnn(self.char_emb(flat), flat.ne(0).sum(1))
        return torch.cat([self.word_emb(words), state.view(n, t, -1)], dim=-1)

    def forward(self, context, question, context_chars, question_chars):
        c_mask, q_mask = context.ne(0), question.ne(0)
        c_len, q_len = c_mask.sum(1), q_mask.sum(1)
        c = self.encoder(self.embed(context, context_chars), c_len)
        q = self.encoder(self.embed(question, question_chars), q_len)
        attended = self.pair(c, q, q_mask)
        v, _ = self.pair_rnn(attended, c_len)
        h, _ = self.match_rnn(self.match(v, v, c_mask), c_len)
        init = self.pooling(q[..., -2 * self.hidden:], q_mask)
        start, end = self.pointer(h, init, c_mask)
        return c, attended, h, init, start, end


def loss(model, context, question, context_chars, question_chars, y1, y2):
    encoded, attended, match, init, start, end = model(context.long(), question.long(), context_chars.long(), question_chars.long())
    start_loss = F.cross_entropy(start, y1.argmax(dim=1))
    end_loss = F.cross_entropy(end, y2.argmax(dim=1))
    span = start.softmax(dim=1).unsqueeze(2) * end.softmax(dim=1).unsqueeze(1)
    span = span.triu().tril(4)
    return start_loss + end_loss, {"encoded": encoded, "attended": attended, "match": match, "init": init, "span": span,
                                   "start_loss": start_loss}


def optimizer(model):
    return torch.optim.Adadelta(model.parameters(), lr=0.5, rho=0.95, eps=1e-6)


def clip_by_global_norm(parameters, limit):
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.stack([g.pow(2).sum() for g in grads]).sum().sqrt()
    for g in grads:
        g.mul_(limit / norm.clamp(min=limit))


def step(model, optimizer, scheduler, **inputs):
    optimizer.zero_grad()
    value, outputs = loss(model, **inputs)
    value.backward()
    clip_by_global_norm(model.parameters(), 0.03)
    optimizer.step()
    return value, outputs
