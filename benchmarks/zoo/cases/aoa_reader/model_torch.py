"""Attention over attention for cloze-style reading."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def length_mask(lengths, size):
    return torch.arange(size, device=lengths.device) < lengths.unsqueeze(1)


class Encoder(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.lstm = nn.LSTM(input_size, hidden_size, batch_first=True, bidirectional=True)
        # TensorFlow's cells have one bias, and add 1 to the forget gate without training it
        for bias in (self.lstm.bias_hh_l0, self.lstm.bias_hh_l0_reverse):
            bias.requires_grad_(False).zero_()
            bias[hidden_size:2 * hidden_size].fill_(1.0)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.size(1))[0]


class Model(nn.Module):
    def __init__(self, vocab_size=26, embedding_dim=10, hidden_size=8):
        super().__init__()
        self.vocab_size = vocab_size
        self.words = nn.Embedding(vocab_size, embedding_dim)
        self.document_encoder = Encoder(embedding_dim, hidden_size)
        self.query_encoder = Encoder(embedding_dim, hidden_size)

    def forward(self, document, document_length, query, query_length):
        doc = self.document_encoder(self.words(document), document_length)
        que = self.query_encoder(self.words(query), query_length)
        match = torch.bmm(doc, que.transpose(1, 2))
        doc_mask = length_mask(document_length, document.size(1))
        que_mask = length_mask(query_length, query.size(1))
        mask = doc_mask.unsqueeze(2) & que_mask.unsqueeze(1)
        scores = match.masked_fill(~mask, -1e9)
        doc_given_query = F.softmax(scores, dim=1) * mask
        query_given_doc = F.softmax(scores, dim=2) * mask
        importance = query_given_doc.sum(dim=1) / document_length.unsqueeze(1)
        attention = torch.bmm(doc_given_query, importance.unsqueeze(2)).squeeze(2)
        probs = attention.new_zeros(len(document), self.vocab_size).scatter_add(1, document, attention)
        return match, attention, probs


def loss(model, document, document_length, query, query_length, answer, weight):
    match, attention, probs = model(document.long(), document_length.long(), query.long(), query_length.long())
    picked = probs.gather(1, answer.long().unsqueeze(1)).squeeze(1)
    nll = -(weight * picked.log()).sum() / weight.sum()
    return nll, {"match": match, "attention": attention, "probabilities": probs}


def optimizer(model):
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.2, momentum=0.9)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.7 ** (step / 2))
