import torch
import torch.nn.functional as F
from torch import nn


class PiecewiseCNN(nn.Module):
    """Convolution over a sentence, and the largest value in front of, between and behind the two entities."""

    def __init__(self, dim, hidden):
        super().__init__()
        self.conv = nn.Conv1d(dim, hidden, 3, padding=1)

    def forward(self, x, piece):
        h = self.conv(x.transpose(1, 2))
        pools = []
        for k in (1, 2, 3):
            outside = (piece != k).unsqueeze(1)
            pools.append(h.masked_fill(outside, -1e4).amax(dim=2))
        # the three pieces of a feature lie beside each other
        return F.relu(torch.stack(pools, dim=2).flatten(1))


class Model(nn.Module):
    def __init__(self, words=50, positions=20, relations=5, word_dim=16, pos_dim=3, hidden=18):
        super().__init__()
        self.word_embedding = nn.Embedding(words, word_dim)
        self.pos1_embedding = nn.Embedding(positions, pos_dim)
        self.pos2_embedding = nn.Embedding(positions, pos_dim)
        self.encoder = PiecewiseCNN(word_dim + 2 * pos_dim, hidden)
        self.relation = nn.Linear(3 * hidden, relations)

    def encode(self, word, pos1, pos2, piece):
        """[bags, sentences, words] -> [bags, sentences, features]"""
        word, pos1, pos2, piece = (t.flatten(0, 1).long() for t in (word, pos1, pos2, piece))
        x = torch.cat([self.word_embedding(word), self.pos1_embedding(pos1), self.pos2_embedding(pos2)], dim=-1)
        return self.encoder(x, piece)

    def forward(self, word, pos1, pos2, piece, count, relation=None):
        bags, sentences = word.shape[:2]
        x = self.encode(word, pos1, pos2, piece).view(bags, sentences, -1)
        beyond = torch.arange(sentences, device=x.device) >= count[:, None]
        if self.training:
            query = self.relation.weight[relation.long()]
            score = torch.einsum("bsd,bd->bs", x, query)
            alpha = score.masked_fill(beyond, -1e9).softmax(dim=-1)
            bag = torch.einsum("bs,bsd->bd", alpha, x)
            logits = self.relation(bag)
        else:
            score = torch.einsum("bsd,rd->brs", x, self.relation.weight)
            alpha = score.masked_fill(beyond[:, None], -1e9).softmax(dim=-1)
            bag = alpha @ x
            logits = (bag * self.relation.weight).sum(-1) + self.relation.bias
        return x, logits


def weighted_loss(logits, relation, weights):
    losses = F.cross_entropy(logits, relation.long(), reduction="none")
    return (weights * losses).sum() / (weights != 0).sum().clamp(min=1)


def loss(model, word, pos1, pos2, piece, count, relation, weights):
    sentences, logits = model(word, pos1, pos2, piece, count, relation)
    value = weighted_loss(logits, relation, weights)
    accuracy = (logits.argmax(-1) == relation).to(logits.dtype).mean()
    return value, {"sentences": sentences, "logits": logits, "accuracy": accuracy}


def optimizer(model):
    return torch.optim.Adadelta(model.parameters(), lr=1.0, rho=0.95, eps=1e-6)
