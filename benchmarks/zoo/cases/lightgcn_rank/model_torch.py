"""LightGCN with item biases, trained by BPR and Adagrad."""

import torch
from torch import nn
from torch.nn import functional as F


class GraphPropagation(nn.Module):
    """The mean over the layers of a graph convolution without weights."""

    def __init__(self, n_layers):
        super().__init__()
        self.n_layers = n_layers

    def forward(self, graph, x):
        layers = [x]
        for _ in range(self.n_layers):
            layers.append(torch.mm(graph, layers[-1]))
        return torch.stack(layers, dim=1).mean(dim=1)


class Scorer(nn.Module):
    """Inner product of user and item, plus the item's bias."""

    def __init__(self, num_items):
        super().__init__()
        self.bias = nn.Embedding(num_items, 1)
        nn.init.zeros_(self.bias.weight)

    def forward(self, user_vectors, item_vectors, items):
        return (user_vectors * item_vectors).sum(dim=-1) + self.bias(items).squeeze(-1)


class LightGCN(nn.Module):
    def __init__(self, num_users=37, num_items=29, embedding_dim=24, n_layers=3):
        super().__init__()
        self.num_users, self.num_items = num_users, num_items
        self.embedding_user = nn.Embedding(num_users, embedding_dim)
        self.embedding_item = nn.Embedding(num_items, embedding_dim)
        nn.init.xavier_uniform_(self.embedding_user.weight)
        nn.init.xavier_uniform_(self.embedding_item.weight)
        self.propagation = GraphPropagation(n_layers)
        self.scorer = Scorer(num_items)

    def forward(self, graph, users, pos_items, neg_items):
        nodes = self.propagation(graph, torch.cat([self.embedding_user.weight, self.embedding_item.weight]))
        all_users, all_items = torch.split(nodes, [self.num_users, self.num_items])
        user_vectors, pos_vectors, neg_vectors = all_users[users], all_items[pos_items], all_items[neg_items]
        ego = (self.embedding_user(users), self.embedding_item(pos_items), self.embedding_item(neg_items))
        outputs = {
            "user_vectors": user_vectors,
            "pos_vectors": pos_vectors,
            "pos_scores": self.scorer(user_vectors, pos_vectors, pos_items),
            "neg_scores": self.scorer(user_vectors, neg_vectors, neg_items),
        }
        return outputs, ego


def loss(model, users, pos_items, neg_items, adjacency, decay=1e-2):
    users, pos_items, neg_items = users.long(), pos_items.long(), neg_items.long()
    out, ego = model(adjacency[0], users, pos_items, neg_items)
    out["mf_loss"] = -F.logsigmoid(out["pos_scores"] - out["neg_scores"]).mean()
    out["emb_loss"] = decay * 0.5 * sum(e.pow(2).sum() for e in ego) / len(users)
    return out["mf_loss"] + out["emb_loss"], out


def optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.03125, initial_accumulator_value=0.1, eps=0.0)
