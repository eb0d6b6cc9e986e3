"""RCNN text classifier (Lai et al.): a bidirectional LSTM gives each word its contexts."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class RCNN(nn.Module):
    def __init__(self, num_words=61, embed_dim=16, context_dim=14, hidden_dim=20, num_classes=4):
        super().__init__()
        self.context_dim = context_dim
        self.embed = nn.Embedding(num_words, embed_dim)
        self.lstm = nn.LSTM(embed_dim, context_dim, batch_first=True, bidirectional=True)
        self.project = nn.Linear(2 * context_dim + embed_dim, hidden_dim)
        self.fc = nn.Linear(hidden_dim, num_classes)
        # the original's cells have one bias, and add 1 to the forget gate: that is what the second one is for
        for bias in (self.lstm.bias_hh_l0, self.lstm.bias_hh_l0_reverse):
            nn.init.zeros_(bias)
            nn.init.ones_(bias[context_dim : 2 * context_dim])
            bias.requires_grad_(False)

    def contexts(self, embedded, lengths):
        packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
        hidden, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=embedded.size(1))
        forward, backward = hidden.split(self.context_dim, dim=-1)
        left = F.pad(forward[:, :-1], (0, 0, 1, 0))
        right = F.pad(backward[:, 1:], (0, 0, 0, 1))
        return left, right

    def forward(self, tokens, lengths, keep):
        embedded = self.embed(tokens)
        left, right = self.contexts(embedded, lengths)
        words = torch.tanh(self.project(torch.cat([left, embedded, right], dim=-1)))
        text = words.max(dim=1).values
        return words, text, self.fc(text * keep)


def loss(model, input_text, lengths, input_y, keep):
    words, text, logits = model(input_text.long(), lengths.long(), keep)
    output_layer = (model.module if hasattr(model, "module") else model).fc
    l2 = 0.5 * (output_layer.weight.pow(2).sum() + output_layer.bias.pow(2).sum())
    return F.cross_entropy(logits, input_y) + 0.01 * l2, {"words": words, "text": text, "logits": logits}
