"""Memory network; hop k reads with embedding k and writes with embedding k + 1."""

import torch
from torch import nn
from torch.nn import functional as F


def position_encoding(sentence_size, embed_size):
    i = torch.arange(1, embed_size + 1, dtype=torch.float64) - (embed_size + 1) / 2
    j = torch.arange(1, sentence_size + 1, dtype=torch.float64) - (sentence_size + 1) / 2
    return 1 + 4 * torch.outer(j, i) / (embed_size * sentence_size)


class Model(nn.Module):
    def __init__(self, vocab_size=30, embed_size=20, memory_size=6, hops=3):
        super().__init__()
        self.hops = hops
        self.embeddings = nn.ModuleList(nn.Embedding(vocab_size, embed_size) for _ in range(hops + 1))
        self.time_in = nn.Parameter(0.1 * torch.randn(memory_size, embed_size))
        self.time_out = nn.Parameter(0.1 * torch.randn(memory_size, embed_size))

    def sentences(self, k, ids):
        words = self.embeddings[k](ids)
        words = words * (ids != 0).unsqueeze(-1).to(words.dtype)
        encoding = position_encoding(ids.size(-1), words.size(-1)).to(words)
        return (words * encoding).sum(dim=-2)

    def forward(self, stories, queries):
        u = self.sentences(0, queries)
        outputs = {"u_0": u}
        for hop in range(self.hops):
            memory = self.sentences(hop, stories) + self.time_in
            probs = F.softmax(torch.einsum("bmd,bd->bm", memory, u), dim=1)
            response = self.sentences(hop + 1, stories) + self.time_out
            u = u + torch.einsum("bm,bmd->bd", probs, response)
            outputs[f"probs_{hop}"] = probs
            outputs[f"u_{hop + 1}"] = u
        outputs["logits"] = F.linear(u, self.embeddings[-1].weight)
        return outputs


def loss(model, stories, queries, answers):
    outputs = model(stories.long(), queries.long())
    return F.cross_entropy(outputs["logits"], answers.argmax(dim=1), reduction="sum"), outputs
