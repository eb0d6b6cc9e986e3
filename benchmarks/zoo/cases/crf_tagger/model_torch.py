"""BiLSTM-CRF tagger."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class CRF(nn.Module):
    """Linear chain with learned scores of the first and of the last tag; ``transitions[i, j]`` is from i to j."""

    def __init__(self, num_tags):
        super().__init__()
        self.start_transitions = nn.Parameter(torch.randn(num_tags) * 0.1)
        self.end_transitions = nn.Parameter(torch.randn(num_tags) * 0.1)
        self.transitions = nn.Parameter(torch.randn(num_tags, num_tags) * 0.1)

    def forward(self, emissions, tags, mask):
        return self.compute_score(emissions, tags, mask), self.compute_normalizer(emissions, mask)

    def compute_score(self, emissions, tags, mask):
        ends = mask.long().sum(dim=1, keepdim=True) - 1
        last_tags = tags.gather(1, ends).squeeze(1)
        emitted = emissions.gather(2, tags.unsqueeze(2)).squeeze(2)
        moved = self.transitions[tags[:, :-1], tags[:, 1:]]
        score = self.start_transitions[tags[:, 0]] + self.end_transitions[last_tags]
        return score + (emitted * mask).sum(dim=1) + (moved * mask[:, 1:]).sum(dim=1)

    def compute_normalizer(self, emissions, mask):
        alpha = self.start_transitions + emissions[:, 0]
        for t in range(1, emissions.size(1)):
            scores = alpha.unsqueeze(2) + self.transitions + emissions[:, t].unsqueeze(1)
            alpha = torch.where(mask[:, t].unsqueeze(1), torch.logsumexp(scores, dim=1), alpha)
        return torch.logsumexp(alpha + self.end_transitions, dim=1)


class Model(nn.Module):
    def __init__(self, num_words=50, num_caps=4, num_tags=7, word_dim=16, cap_dim=4, hidden_dim=12):
        super().__init__()
        self.word_embeds = nn.Embedding(num_words, word_dim)
        self.cap_embeds = nn.Embedding(num_caps, cap_dim)
        self.lstm = nn.LSTM(word_dim + cap_dim, hidden_dim, batch_first=True, bidirectional=True)
        # one trained bias per direction, as in the original; the other holds the forget gate's constant (i, f, g, o)
        for name, bias in self.lstm.named_parameters():
            if name.startswith("bias_hh"):
                nn.init.zeros_(bias)
                nn.init.ones_(bias.data[hidden_dim:2 * hidden_dim])
                bias.requires_grad_(False)
        self.hidden = nn.Linear(2 * hidden_dim, hidden_dim)
        self.hidden2tag = nn.Linear(hidden_dim, num_tags)
        self.crf = CRF(num_tags)

    def forward(self, words, caps, tags, lengths, mask):
        embedded = torch.cat([self.word_embeds(words), self.cap_embeds(caps)], dim=-1)
        packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
        lstm_out = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=words.size(1))[0]
        logits = self.hidden2tag(torch.tanh(self.hidden(lstm_out)))
        score, log_norm = self.crf(logits, tags, mask)
        return {"embedded": embedded, "lstm": lstm_out, "logits": logits, "score": score, "log_norm": log_norm}


def loss(model, words, caps, tags, lengths, mask):
    out = model(words.long(), caps.long(), tags.long(), lengths.long(), mask > 0)
    return (out["log_norm"] - out["score"]).mean(), out


def optimizer(model):
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05, momentum=0.9)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 / (1.0 + 0.05 * step))


def clip_gradients(parameters, max_norm):
    """Global norm, without the epsilon of torch's own."""
    grads = [p.grad for p in parameters if p.grad is not None]
    total = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in grads]))
    for g in grads:
        g.mul_(max_norm / total.clamp(min=max_norm))


def step(model, optimizer, scheduler, **inputs):
    optimizer.zero_grad()
    total, out = loss(model, **inputs)
    total.backward()
    clip_gradients(model.parameters(), 1.0)
    optimizer.step()
    if scheduler is not None:
        scheduler.step()
    return total, out
