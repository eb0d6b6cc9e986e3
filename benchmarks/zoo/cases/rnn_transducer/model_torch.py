import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

BLANK = 0
MAX_NORM = 10.0


class PackedLSTM(nn.LSTM):
    """An LSTM over padded sequences; its outputs behind the end are 0. Of its two biases one is trained, one forgets less."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, batch_first=True, **kwargs)
        nn.init.zeros_(self.bias_hh_l0).requires_grad_(False)
        nn.init.ones_(self.bias_hh_l0.data[self.hidden_size : 2 * self.hidden_size])

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        packed, _ = super().forward(packed)
        return pad_packed_sequence(packed, batch_first=True, total_length=x.size(1))[0]


class Encoder(nn.Module):
    def __init__(self, features, hidden, proj, reduction=2):
        super().__init__()
        self.reduction = reduction
        self.lstm1 = PackedLSTM(features, hidden, proj_size=proj)
        self.norm1 = nn.LayerNorm(proj, eps=1e-12)
        self.lstm2 = PackedLSTM(reduction * proj, hidden, proj_size=proj)
        self.norm2 = nn.LayerNorm(proj, eps=1e-12)

    def forward(self, x, lengths):
        x = self.norm1(self.lstm1(x, lengths))
        x = x.unflatten(1, (-1, self.reduction)).flatten(2)
        lengths = torch.div(lengths + self.reduction - 1, self.reduction, rounding_mode="floor")
        return self.norm2(self.lstm2(x, lengths)), lengths


class Predictor(nn.Module):
    def __init__(self, vocab, dim, hidden):
        super().__init__()
        self.embedding = nn.Embedding(vocab, dim)
        self.lstm = PackedLSTM(dim, hidden)

    def forward(self, labels, lengths):
        labels = nn.functional.pad(labels, (1, 0), value=BLANK)
        return self.lstm(self.embedding(labels), lengths + 1)


class Joiner(nn.Module):
    def __init__(self, encoded, predicted, hidden, vocab):
        super().__init__()
        self.encoder_proj = nn.Linear(encoded, hidden)
        self.predictor_proj = nn.Linear(predicted, hidden, bias=False)
        self.output = nn.Linear(hidden, vocab)

    def forward(self, encoded, predicted):
        hidden = self.encoder_proj(encoded).unsqueeze(2) + self.predictor_proj(predicted).unsqueeze(1)
        return self.output(torch.tanh(hidden))


class Model(nn.Module):
    def __init__(self, features=8, vocab=9):
        super().__init__()
        self.encoder = Encoder(features, hidden=18, proj=12)
        self.predictor = Predictor(vocab, dim=7, hidden=14)
        self.joiner = Joiner(12, 14, hidden=15, vocab=vocab)

    def forward(self, features, feature_length, labels, label_length):
        encoded, lengths = self.encoder(features, feature_length)
        predicted = self.predictor(labels, label_length)
        return encoded, predicted, self.joiner(encoded, predicted), lengths


def transducer_loss(logits, labels, lengths, label_lengths):
    """-log of the probability of the labels, over all alignments, for each utterance.

    Within a frame alpha[u] = logaddexp(stay[u], alpha[u - 1] + emit[u - 1]) is a running logsumexp of what stays, less what has been
    emitted up to there.
    """
    log_probs = logits.log_softmax(dim=-1)
    blank = log_probs[..., BLANK]
    index = labels[:, None, :, None].expand(-1, logits.size(1), -1, 1)
    emit = log_probs[:, :, :-1].gather(3, index).squeeze(3)
    emitted = nn.functional.pad(emit.cumsum(dim=2), (1, 0))
    alphas = [emitted[:, 0]]
    for t in range(1, logits.size(1)):
        stay = alphas[-1] + blank[:, t - 1]
        alphas.append(emitted[:, t] + torch.logcumsumexp(stay - emitted[:, t], dim=1))
    final = torch.stack(alphas, dim=1) + blank
    each = torch.arange(len(labels), device=labels.device)
    return -final[each, lengths - 1, label_lengths]


def loss(model, features, feature_length, labels, label_length):
    feature_length, labels, label_length = feature_length.long(), labels.long(), label_length.long()
    encoded, predicted, logits, lengths = model(features, feature_length, labels, label_length)
    losses = transducer_loss(logits, labels, lengths, label_length)
    per_label = losses.sum() / label_length.sum()
    return losses.mean(), {"encoded": encoded, "predicted": predicted, "logits": logits, "per_label": per_label}


def clip_by_global_norm(parameters, limit):
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.sqrt(sum(g.square().sum() for g in grads))
    for g in grads:
        g.mul_(limit / torch.clamp(norm, min=limit))


def optimizer(model):
    return torch.optim.Adagrad([p for p in model.parameters() if p.requires_grad], lr=0.1, initial_accumulator_value=0.1, eps=0)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + 0.25 * step))


def step(model, optimizer, scheduler, **batch):
    optimizer.zero_grad()
    value, outputs = loss(model, **batch)
    value.backward()
    clip_by_global_norm(model.parameters(), MAX_NORM)
    optimizer.step()
    if scheduler is not None:
        scheduler.step()
    return value, outputs
