"""BiLSTM tagger over word vectors and a character CNN with highway layers."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Highway(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.transform = nn.Linear(size, size)
        self.gate = nn.Linear(size, size)
        nn.init.constant_(self.gate.bias, -2.0)

    def forward(self, x):
        gate = torch.sigmoid(self.gate(x))
        candidate = F.relu(self.transform(x))
        return gate * candidate + (1 - gate) * x


class CharCNN(nn.Module):
    def __init__(self, num_chars, dim, filters, num_highway):
        super().__init__()
        self.embedding = nn.Embedding(num_chars, dim)
        self.convs = nn.ModuleList(nn.Conv1d(dim, count, width) for width, count in filters)
        size = sum(count for _, count in filters)
        self.highways = nn.Sequential(*[Highway(size) for _ in range(num_highway)])

    def forward(self, chars):
        """chars: [batch, time, letters] -> [batch, time, features]"""
        batch, time, letters = chars.shape
        x = self.embedding(chars.view(batch * time, letters)).transpose(1, 2)
        pooled = [torch.tanh(conv(x)).max(dim=2).values for conv in self.convs]
        return self.highways(torch.cat(pooled, dim=1)).view(batch, time, -1)


class Model(nn.Module):
    def __init__(self, num_words=50, num_chars=20, num_tags=7, word_dim=14, char_dim=6, hidden=14):
        super().__init__()
        self.word_embedding = nn.Embedding(num_words, word_dim)
        self.char_cnn = CharCNN(num_chars, char_dim, [(2, 4), (3, 6), (4, 8)], num_highway=2)
        self.lstm = nn.LSTM(word_dim + 18, hidden, batch_first=True, bidirectional=True)
        self.classifier = nn.Linear(2 * hidden, num_tags)
        # one trained bias per direction; the other one is the constant forget bias
        for bias in (self.lstm.bias_hh_l0, self.lstm.bias_hh_l0_reverse):
            bias.requires_grad_(False).zero_()
            bias[hidden:2 * hidden] = 1.0

    def forward(self, words, chars, lengths, dropout):
        spelled = self.char_cnn(chars)
        x = torch.cat([self.word_embedding(words), spelled], dim=2) * dropout
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        recurrent, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.size(1))
        return spelled, recurrent, self.classifier(recurrent)


def tagging_loss(logits, tags, lengths):
    mask = torch.arange(tags.size(1), device=tags.device) < lengths[:, None]
    return F.cross_entropy(logits[mask], tags[mask])


def loss(model, words, chars, lengths, tags, dropout):
    spelled, recurrent, logits = model(words.long(), chars.long(), lengths.long(), dropout)
    total = tagging_loss(logits, tags.long(), lengths.long())
    return total, {"spelled": spelled, "recurrent": recurrent, "logits": logits}


def clip_gradients(parameters, limit):
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.sqrt(sum(g.pow(2).sum() for g in grads))
    for g in grads:
        g.mul_(limit / torch.clamp(norm, min=limit))


def optimizer(model):
    return torch.optim.SGD((p for p in model.parameters() if p.requires_grad), lr=0.1, momentum=0.9)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + 0.05 * step))


def step(model, optimizer, scheduler, words, chars, lengths, tags, dropout):
    optimizer.zero_grad()
    total, outputs = loss(model, words, chars, lengths, tags, dropout)
    total.backward()
    clip_gradients(model.parameters(), 0.25)
    optimizer.step()
    scheduler.step()
    return total, outputs
