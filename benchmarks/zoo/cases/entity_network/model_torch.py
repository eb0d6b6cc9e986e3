"""Recurrent entity network (Henaff et al. 2017) whose memory keys are the embeddings of the answers."""
import torch
from torch import nn
from torch.nn import functional as F


class Embedding(nn.Embedding):
    """The padding has no embedding: it is zero whatever its row holds."""

    def forward(self, ids):
        return super().forward(ids) * (ids > 0).unsqueeze(-1)


class SentenceEncoder(nn.Module):
    def __init__(self, max_words, dim):
        super().__init__()
        self.positions = nn.Parameter(torch.ones(max_words, dim))

    def forward(self, words):
        return (words * self.positions).sum(dim=-2)


class MemoryCell(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.state = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim, bias=False)
        self.input = nn.Linear(dim, dim, bias=False)
        self.act = nn.PReLU(dim, init=1.0)

    def forward(self, s, h, keys):
        """Updates the memories h [batch, slots, dim] by the sentence s [batch, dim]."""
        s = s.unsqueeze(1)
        gate = torch.sigmoid((s * h).sum(-1) + (s * keys).sum(-1))
        candidate = self.state(h) + self.key(keys) + self.input(s)
        candidate = self.act(candidate.flatten(0, 1)).view_as(h)
        h = h + gate.unsqueeze(-1) * candidate
        return F.normalize(h, dim=-1)


class Memory(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.cell = MemoryCell(dim)

    def forward(self, sentences, lengths, keys):
        h = keys.expand(sentences.size(0), -1, -1)
        for t in range(sentences.size(1)):
            new = self.cell(sentences[:, t], h, keys)
            h = torch.where((t < lengths).view(-1, 1, 1), new, h)
        return h


class Decoder(nn.Module):
    def __init__(self, dim, vocab_size):
        super().__init__()
        self.hidden = nn.Linear(dim, dim, bias=False)
        self.act = nn.PReLU(dim, init=1.0)
        self.out = nn.Linear(dim, vocab_size, bias=False)

    def forward(self, memory, query):
        attention = torch.einsum("bsd,bd->bs", memory, query).softmax(dim=-1)
        read = torch.einsum("bs,bsd->bd", attention, memory)
        return self.out(self.act(query + self.hidden(read)))


class Model(nn.Module):
    def __init__(self, vocab_size=40, dim=20, slots=5, story_words=6, query_words=4):
        super().__init__()
        self.slots = slots
        self.embedding = Embedding(vocab_size, dim)
        self.story_encoder = SentenceEncoder(story_words, dim)
        self.query_encoder = SentenceEncoder(query_words, dim)
        self.memory = Memory(dim)
        self.decoder = Decoder(dim, vocab_size)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.3)
        nn.init.normal_(self.memory.cell.state.bias, std=0.3)

    def forward(self, story, query):
        lengths = (story > 0).any(dim=2).sum(dim=1)
        sentences = self.story_encoder(self.embedding(story))
        question = self.query_encoder(self.embedding(query)).squeeze(1)
        keys = self.embedding.weight[-self.slots:]
        memory = self.memory(sentences, lengths, keys)
        return question, memory, self.decoder(memory, question)


def loss(model, story, query, answer, weights):
    question, memory, logits = model(story.long(), query.long())
    losses = F.cross_entropy(logits, answer.long(), reduction="none")
    total = (losses * weights).sum() / (weights != 0).sum()
    return total, {"query": question, "memory": memory, "logits": logits}
