"""MatchPyramid: an interaction image, two convolutions, dynamic pooling, a small classifier."""

import torch
from torch import nn
from torch.nn import functional as F


class Interaction(nn.Module):
    """Two channels: the inner products of the embeddings, and which tokens are the same."""

    def __init__(self, vocab_size, embedding_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)

    def forward(self, query, doc, query_mask, doc_mask):
        product = self.embedding(query) @ self.embedding(doc).transpose(1, 2)
        same = (query.unsqueeze(2) == doc.unsqueeze(1)).to(product.dtype)
        filled = query_mask.unsqueeze(2) * doc_mask.unsqueeze(1)
        return torch.stack([product, same], dim=1) * filled.unsqueeze(1)


class DynamicPool(nn.Module):
    """Stretches what is filled of each image over all of it, then pools to a fixed size."""

    def __init__(self, rows, columns):
        super().__init__()
        self.rows = rows
        self.columns = columns

    def forward(self, x, index):
        batch = torch.arange(x.size(0), device=x.device).view(-1, 1, 1)
        stretched = x.permute(0, 2, 3, 1)[batch, index[..., 0], index[..., 1]].permute(0, 3, 1, 2)
        window = (x.size(2) // self.rows, x.size(3) // self.columns)
        return F.max_pool2d(stretched, window)


class Model(nn.Module):
    def __init__(self, vocab_size=61, embedding_dim=18, hidden=22):
        super().__init__()
        self.interaction = Interaction(vocab_size, embedding_dim)
        self.features = nn.Sequential(
            nn.Conv2d(2, 8, (3, 5), padding=(1, 2)),
            nn.ReLU(),
            nn.Conv2d(8, 10, 3, padding=1),
            nn.ReLU(),
        )
        self.pool = DynamicPool(3, 5)
        self.fc1 = nn.Linear(10 * 3 * 5, hidden)
        self.fc2 = nn.Linear(hidden, 1)

    def forward(self, query, doc, query_mask, doc_mask, index):
        image = self.interaction(query, doc, query_mask, doc_mask)
        conv = self.features(image)
        pooled = self.pool(conv, index)
        hidden = F.relu(self.fc1(pooled.flatten(1)))
        return image, conv, pooled, self.fc2(hidden).squeeze(1)


def loss(model, query, doc, query_mask, doc_mask, dpool_index):
    image, conv, pooled, scores = model(query.long(), doc.long(), query_mask, doc_mask, dpool_index.long())
    positive, negative = scores[0::2], scores[1::2]
    hinge = F.margin_ranking_loss(positive, negative, torch.ones_like(positive), margin=1.0)
    weights = dict(model.named_parameters())
    decay = sum(w.square().sum() / 2 for name, w in weights.items() if "fc" in name and name.endswith("weight"))
    outputs = {"cross": image, "conv": conv, "pooled": pooled, "pred": scores, "hinge": hinge}
    return hinge + 0.01 * decay, outputs


def optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.02, initial_accumulator_value=0.1, eps=0.0)
