"""MFB with co-attention over regions, for small scenes."""

import torch
from torch import nn
from torch.nn import functional as F


class QuestionEncoder(nn.Module):
    def __init__(self, vocab=30, word_dim=12, hidden=16):
        super().__init__()
        self.embedding = nn.Embedding(vocab, word_dim)
        self.lstm = nn.LSTM(word_dim, hidden, batch_first=True)
        # one trained bias, as the original; the other only holds the forget gate open
        with torch.no_grad():
            self.lstm.bias_hh_l0.zero_()
            self.lstm.bias_hh_l0[hidden:2 * hidden] = 1.0
        self.lstm.bias_hh_l0.requires_grad_(False)

    def forward(self, words, lengths):
        states, _ = self.lstm(torch.tanh(self.embedding(words)))
        return states[torch.arange(len(words)), lengths - 1]


class FactorisedBilinear(nn.Module):
    def __init__(self, question_dim, image_dim, out=10, factor=4):
        super().__init__()
        self.from_question = nn.Linear(question_dim, out * factor)
        self.from_image = nn.Linear(image_dim, out * factor)
        self.out, self.factor = out, factor

    def forward(self, question, image):
        joint = self.from_question(question).unsqueeze(1) * self.from_image(image)
        pooled = joint.unflatten(-1, (self.out, self.factor)).sum(-1)
        rooted = torch.sign(pooled) * torch.sqrt(pooled.abs() + 1e-12)
        return F.normalize(rooted.flatten(1), dim=1).view_as(rooted)


class RegionAttention(nn.Module):
    def __init__(self, question_dim, image_dim, glimpses=2):
        super().__init__()
        self.fusion = FactorisedBilinear(question_dim, image_dim)
        self.hidden = nn.Linear(10, 8)
        self.score = nn.Linear(8, glimpses)

    def forward(self, question, regions, absent):
        scores = self.score(F.relu(self.hidden(self.fusion(question, regions))))
        scores = scores.masked_fill(absent.unsqueeze(-1), -1e9)
        weights = F.softmax(scores, dim=1)
        return weights, torch.einsum("nrg,nrd->ngd", weights, regions).flatten(1)


class VQAModel(nn.Module):
    def __init__(self, image_dim=10, hidden=16, answers=9):
        super().__init__()
        self.question = QuestionEncoder(hidden=hidden)
        self.attend = RegionAttention(hidden, image_dim)
        self.fuse = FactorisedBilinear(hidden, 2 * image_dim)
        self.classifier = nn.Linear(10, answers)

    def forward(self, regions, boxes, words, lengths):
        question = self.question(words, lengths)
        absent = torch.arange(regions.size(1)) >= boxes.unsqueeze(1)
        weights, attended = self.attend(question, regions, absent)
        fused = self.fuse(question, attended.unsqueeze(1)).squeeze(1)
        return question, weights, attended, self.classifier(fused)


def loss(model, features, boxes, words, lengths, votes):
    question, weights, attended, logits = model(features, boxes.long(), words.long(), lengths.long())
    divergence = F.kl_div(F.log_softmax(logits, dim=1), votes, reduction="batchmean")
    return divergence, {"question": question, "attention": weights, "attended": attended, "logits": logits}


def optimizer(model):
    trained = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.Adagrad(trained, lr=0.05, initial_accumulator_value=0.1, eps=0.0)
