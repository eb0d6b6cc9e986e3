"""BiMPM: two sentences are matched word by word, each against the other."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

L2 = 1e-3
MAX_NORM = 0.25


def cosine(a, b):
    return F.cosine_similarity(a, b, dim=-1, eps=1e-3)


class BiLSTM(nn.Module):
    """Bidirectional LSTM over padded sentences; forget gates get a constant 1, held by the bias that is not trained."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.rnn = nn.LSTM(input_size, hidden_size, batch_first=True, bidirectional=True)
        for constant in (self.rnn.bias_hh_l0, self.rnn.bias_hh_l0_reverse):
            nn.init.zeros_(constant.requires_grad_(False))
            constant[hidden_size:2 * hidden_size] = 1.0

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        out, (h, _) = self.rnn(packed)
        out, _ = pad_packed_sequence(out, batch_first=True, total_length=x.size(1))
        return out, h


class Matcher(nn.Module):
    """The three matchings of one direction of the context LSTM."""

    def __init__(self, dim, perspectives):
        super().__init__()
        self.full = nn.Parameter(torch.empty(perspectives, dim).uniform_(0.3, 1.5))
        self.maxpool = nn.Parameter(torch.empty(perspectives, dim).uniform_(0.3, 1.5))
        self.attentive = nn.Parameter(torch.empty(perspectives, dim).uniform_(0.3, 1.5))

    def forward(self, a, b, b_last, b_mask):
        hidden = ~b_mask
        views = lambda x, weight: x.unsqueeze(-2) * weight

        full = cosine(views(a, self.full), views(b_last, self.full).unsqueeze(1))

        pairs = cosine(views(a, self.maxpool).unsqueeze(2), views(b, self.maxpool).unsqueeze(1))
        pairs = pairs.masked_fill(hidden[:, None, :, None], float("-inf"))
        maxpool = pairs.amax(dim=2)

        relevance = cosine(a.unsqueeze(2), b.unsqueeze(1)).masked_fill(hidden.unsqueeze(1), -1e4)
        weights = F.softmax(relevance, dim=2)
        summary = torch.bmm(weights, b)
        attentive = cosine(views(a, self.attentive), views(summary, self.attentive))
        return torch.cat([full, maxpool, attentive], dim=2)


class BiMPM(nn.Module):
    def __init__(self, vocab_size=30, embedding_size=10, hidden=6, aggregate=5, perspectives=3, classes=2):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_size)
        self.context = BiLSTM(embedding_size, hidden)
        self.forward_matcher = Matcher(hidden, perspectives)
        self.backward_matcher = Matcher(hidden, perspectives)
        self.aggregation = BiLSTM(6 * perspectives, aggregate)
        self.fc1 = nn.Linear(4 * aggregate, 2 * aggregate)
        self.fc2 = nn.Linear(2 * aggregate, classes)

    def match(self, a, a_mask, b, b_mask, b_last):
        a_fw, a_bw = a.chunk(2, dim=2)
        b_fw, b_bw = b.chunk(2, dim=2)
        matched = torch.cat([
            self.forward_matcher(a_fw, b_fw, b_last[0], b_mask),
            self.backward_matcher(a_bw, b_bw, b_last[1], b_mask),
        ], dim=2)
        return matched.masked_fill(~a_mask.unsqueeze(2), 0.0)

    def forward(self, q, q_mask, p, p_mask):
        q_lengths, p_lengths = q_mask.sum(1), p_mask.sum(1)
        q_context, q_last = self.context(self.embedding(q), q_lengths)
        p_context, p_last = self.context(self.embedding(p), p_lengths)
        p_match = self.match(p_context, p_mask, q_context, q_mask, q_last)
        q_match = self.match(q_context, q_mask, p_context, p_mask, p_last)
        _, p_final = self.aggregation(p_match, p_lengths)
        _, q_final = self.aggregation(q_match, q_lengths)
        representation = torch.cat([p_final[0], p_final[1], q_final[0], q_final[1]], dim=1)
        logits = self.fc2(torch.tanh(self.fc1(representation)))
        return {"passage_match": p_match, "question_match": q_match, "representation": representation, "logits": logits}


def loss(model, question, question_mask, passage, passage_mask, truth):
    out = model(question.long(), question_mask.bool(), passage.long(), passage_mask.bool())
    matrices = [p for p in model.parameters() if p.requires_grad and p.dim() > 1]
    l2 = sum(p.square().sum() for p in matrices) / 2
    return F.cross_entropy(out["logits"], truth.long()) + L2 * l2, out


def optimizer(model):
    return torch.optim.Adadelta([p for p in model.parameters() if p.requires_grad], lr=0.5, rho=0.95, eps=1e-6)


def clip(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.stack([g.square().sum() for g in grads]).sum().sqrt()
    for g in grads:
        g.mul_(MAX_NORM / norm.clamp(min=MAX_NORM))


def step(model, optimizer, scheduler, **batch):
    optimizer.zero_grad()
    total, outputs = loss(model, **batch)
    total.backward()
    clip(model.parameters())
    optimizer.step()
    return total, outputs
