import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

CLIP = 0.05


class DilatedBlock(nn.Sequential):
    def __init__(self, filters, width=3, dilations=(1, 1, 2)):
        layers = []
        for d in dilations:
            layers += [nn.Conv1d(filters, filters, width, padding=d * (width // 2), dilation=d), nn.ReLU()]
        super().__init__(*layers)


class IDCNN(nn.Module):
    """Runs one block again and again; every run's output counts."""

    def __init__(self, n_in, filters, repeats):
        super().__init__()
        self.initial = nn.Conv1d(n_in, filters, 3, padding=1, bias=False)
        block = DilatedBlock(filters)
        self.iterations = nn.ModuleList([block] * repeats)

    def forward(self, x):
        x = self.initial(x.transpose(1, 2))
        outputs = []
        for block in self.iterations:
            x = block(x)
            outputs.append(x)
        return torch.cat(outputs, dim=1).transpose(1, 2)


class CRF(nn.Module):
    """Negative log likelihood of tags. The last row of the transitions is the start's."""

    def __init__(self, n_tags):
        super().__init__()
        self.n_tags = n_tags
        self.transitions = nn.Parameter(torch.empty(n_tags + 1, n_tags + 1))
        nn.init.xavier_uniform_(self.transitions)

    def gold(self, emissions, tags, mask):
        unary = emissions.gather(2, tags.unsqueeze(2)).squeeze(2)
        previous = torch.cat([torch.full_like(tags[:, :1], self.n_tags), tags[:, :-1]], dim=1)
        return ((unary + self.transitions[previous, tags]) * mask).sum(1)

    def partition(self, emissions, mask):
        inner = self.transitions[:-1, :-1]
        alpha = self.transitions[-1, :-1] + emissions[:, 0]
        for t in range(1, emissions.size(1)):
            new = torch.logsumexp(alpha.unsqueeze(2) + inner, dim=1) + emissions[:, t]
            alpha = torch.where(mask[:, t].bool().unsqueeze(1), new, alpha)
        return torch.logsumexp(alpha, dim=1)

    def forward(self, emissions, tags, mask):
        return self.partition(emissions, mask) - self.gold(emissions, tags, mask)


class IDCNNTagger(nn.Module):
    def __init__(self, n_chars=45, n_segs=4, char_dim=14, seg_dim=4, filters=12, repeats=3, n_tags=5):
        super().__init__()
        self.char_embed = nn.Embedding(n_chars, char_dim)
        self.seg_embed = nn.Embedding(n_segs, seg_dim)
        self.idcnn = IDCNN(char_dim + seg_dim, filters, repeats)
        self.project = nn.Linear(repeats * filters, n_tags)
        self.crf = CRF(n_tags)

    def forward(self, chars, segs, mask, tags):
        embedding = torch.cat([self.char_embed(chars), self.seg_embed(segs)], dim=-1)
        features = self.idcnn(embedding)
        logits = self.project(features)
        return embedding, features, logits, self.crf(logits, tags, mask)


def loss(model, chars, segs, mask, targets):
    embedding, features, logits, nll = model(chars.long(), segs.long(), mask, targets.long())
    return nll.mean(), {"embedding": embedding, "features": features, "logits": logits}


def step(model, optimizer, scheduler, chars, segs, mask, targets):
    model.zero_grad()
    value, outputs = loss(model, chars, segs, mask, targets)
    value.backward()
    clip_grad_value_(model.parameters(), CLIP)
    optimizer.step()
    return value, outputs
