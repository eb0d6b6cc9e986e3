"""Enhanced LSTM for natural language inference."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Seq2SeqEncoder(nn.Module):
    """A bidirectional LSTM over padded sequences; zeros behind their ends."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.rnn = nn.LSTM(input_size, hidden_size, batch_first=True, bidirectional=True)
        for bias in (self.rnn.bias_hh_l0, self.rnn.bias_hh_l0_reverse):
            # bias_ih is the bias that is trained, this one only opens the forget gates
            bias.requires_grad_(False)
            bias.zero_()
            bias[hidden_size : 2 * hidden_size] = 1.0

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        outputs, _ = self.rnn(packed)
        return pad_packed_sequence(outputs, batch_first=True, total_length=x.size(1))[0]


class SoftmaxAttention(nn.Module):
    def forward(self, premise, premise_mask, hypothesis, hypothesis_mask):
        similarity = premise @ hypothesis.transpose(1, 2)
        over_hypothesis = similarity.masked_fill(~hypothesis_mask.unsqueeze(1), float("-inf")).softmax(dim=2)
        over_premise = similarity.masked_fill(~premise_mask.unsqueeze(2), float("-inf")).softmax(dim=1)
        return over_hypothesis @ hypothesis, over_premise.transpose(1, 2) @ premise


class Enhancement(nn.Module):
    """The local inference: a sentence, what is aligned with it, their difference and their product."""

    def __init__(self, in_features, out_features):
        super().__init__()
        self.projection = nn.Linear(4 * in_features, out_features)

    def forward(self, x, aligned):
        enhanced = torch.cat([x, aligned, x - aligned, x * aligned], dim=-1)
        return F.relu(self.projection(enhanced))


class Pooling(nn.Module):
    def forward(self, x, mask):
        mask = mask.unsqueeze(2)
        average = (x * mask).sum(dim=1) / mask.sum(dim=1)
        maximum = x.masked_fill(~mask, float("-inf")).max(dim=1)[0]
        return torch.cat([average, maximum], dim=1)


class Model(nn.Module):
    def __init__(self, vocab_size=40, embedding_dim=18, hidden_size=10, projection_size=16, composition_size=12, num_classes=3):
        super().__init__()
        self.word_embedding = nn.Embedding(vocab_size, embedding_dim)
        self.encoding = Seq2SeqEncoder(embedding_dim, hidden_size)
        self.attention = SoftmaxAttention()
        self.enhancement = Enhancement(2 * hidden_size, projection_size)
        self.composition = Seq2SeqEncoder(projection_size, composition_size)
        self.pooling = Pooling()
        self.classification = nn.Sequential(nn.Linear(8 * composition_size, 20), nn.Tanh(), nn.Linear(20, num_classes))

    def forward(self, premise, premise_length, hypothesis, hypothesis_length):
        premise_mask = torch.arange(premise.size(1), device=premise.device) < premise_length.unsqueeze(1)
        hypothesis_mask = torch.arange(hypothesis.size(1), device=premise.device) < hypothesis_length.unsqueeze(1)

        a = self.encoding(self.word_embedding(premise), premise_length)
        b = self.encoding(self.word_embedding(hypothesis), hypothesis_length)
        a_hat, b_hat = self.attention(a, premise_mask, b, hypothesis_mask)

        v_a = self.composition(self.enhancement(a, a_hat), premise_length)
        v_b = self.composition(self.enhancement(b, b_hat), hypothesis_length)
        v = torch.cat([self.pooling(v_a, premise_mask), self.pooling(v_b, hypothesis_mask)], dim=1)
        return {
            "encoded_premise": a,
            "encoded_hypothesis": b,
            "attended_premise": a_hat,
            "attended_hypothesis": b_hat,
            "pooled": v,
            "logits": self.classification(v),
        }


def loss(model, premise, premise_length, hypothesis, hypothesis_length, y):
    out = model(premise.long(), premise_length.long(), hypothesis.long(), hypothesis_length.long())
    return F.cross_entropy(out["logits"], y), out


def optimizer(model):
    trained = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.Adagrad(trained, lr=0.05, initial_accumulator_value=0.1, eps=0.0)


def rate(step):
    left = 1 - min(step, 6) / 6
    return (0.05 - 0.005) * left**2 + 0.005
