"""NGCF in PyTorch."""
from collections import Counter

import torch
from torch import nn
from torch.nn import functional as F

NUM_USERS, NUM_ITEMS = 40, 54


def edges():
    """Pairs of nodes in both directions, and every node with itself; items are numbered behind the users."""
    pairs = {(node, node) for node in range(NUM_USERS + NUM_ITEMS)}
    for user in range(NUM_USERS):
        for j in range(2 + user % 6):
            item = NUM_USERS + (3 * user + 5 * j * j + 2 * j) % NUM_ITEMS
            pairs |= {(user, item), (item, user)}
    return sorted(pairs)


class BiInteraction(nn.Module):
    def __init__(self, in_dim, out_dim):
        super().__init__()
        self.aggregate = nn.Linear(in_dim, out_dim)
        self.interact = nn.Linear(in_dim, out_dim)

    def forward(self, adjacency, x):
        neighbours = torch.sparse.mm(adjacency, x)
        message = F.leaky_relu(self.aggregate(neighbours), 0.2)
        product = F.leaky_relu(self.interact(x * neighbours), 0.2)
        return message + product


class Model(nn.Module):
    def __init__(self, dim=16, layers=(16, 12)):
        super().__init__()
        self.users = nn.Embedding(NUM_USERS, dim)
        self.items = nn.Embedding(NUM_ITEMS, dim)
        self.layers = nn.ModuleList(BiInteraction(i, o) for i, o in zip((dim,) + layers, layers))
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)
        pairs = edges()
        degree = Counter(i for i, _ in pairs)
        self.register_buffer("edge_index", torch.tensor(pairs).t().contiguous())
        self.register_buffer("edge_weight", torch.tensor([1 / degree[i] for i, j in pairs]))

    def propagate(self):
        size = NUM_USERS + NUM_ITEMS
        adjacency = torch.sparse_coo_tensor(self.edge_index, self.edge_weight, (size, size))
        x = torch.cat([self.users.weight, self.items.weight])
        outputs = [x]
        for layer in self.layers:
            x = layer(adjacency, x)
            outputs.append(F.normalize(x, dim=1))
        return torch.cat(outputs, 1).split([NUM_USERS, NUM_ITEMS])

    def forward(self, users, pos_items, neg_items):
        user_vectors, item_vectors = self.propagate()
        final = user_vectors[users], item_vectors[pos_items], item_vectors[neg_items]
        initial = self.users(users), self.items(pos_items), self.items(neg_items)
        return final, initial


def loss(model, users, pos_items, neg_items, confidence):
    final, initial = model(users.long(), pos_items.long(), neg_items.long())
    u, pos, neg = final
    pos_scores, neg_scores = (u * pos).sum(1), (u * neg).sum(1)
    bpr = -(confidence * F.logsigmoid(pos_scores - neg_scores)).mean()
    penalty = sum(e.square().sum() for e in initial) / (2 * users.size(0))
    return bpr + 1e-2 * penalty, {"pos_scores": pos_scores, "neg_scores": neg_scores, "mf_loss": bpr}


def optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.05, initial_accumulator_value=0.1, eps=0)
