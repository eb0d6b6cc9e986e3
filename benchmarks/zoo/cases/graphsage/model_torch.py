"""GraphSAGE on sampled neighbourhoods: max pooling, then mean aggregation, unit embeddings, hinge loss on links."""

import torch
from torch import nn
from torch.nn import functional as F


class MaxPoolAggregator(nn.Module):
    def __init__(self, in_features, pool_features, out_features):
        super().__init__()
        self.fc_pool = nn.Linear(in_features, pool_features)
        self.fc_self = nn.Linear(in_features, out_features, bias=False)
        self.fc_neigh = nn.Linear(pool_features, out_features, bias=False)

    def forward(self, x, neighbours, mask):
        h = F.relu(self.fc_pool(neighbours))
        h = h.masked_fill(mask.unsqueeze(-1) == 0, float("-inf")).amax(dim=-2)
        return F.relu(torch.cat([self.fc_self(x), self.fc_neigh(h)], dim=-1))


class MeanAggregator(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc_self = nn.Linear(in_features, out_features, bias=False)
        self.fc_neigh = nn.Linear(in_features, out_features, bias=False)

    def forward(self, x, neighbours, mask):
        h = (neighbours * mask.unsqueeze(-1)).sum(dim=-2) / mask.sum(dim=-1, keepdim=True)
        return torch.cat([self.fc_self(x), self.fc_neigh(h)], dim=-1)


class Model(nn.Module):
    def __init__(self, num_nodes=72, identity_dim=12, hidden=10, out=8, pool=16):
        super().__init__()
        self.node_embedding = nn.Embedding(num_nodes, identity_dim)
        self.conv1 = MaxPoolAggregator(identity_dim, pool, hidden)
        self.conv2 = MeanAggregator(2 * hidden, out)

    def forward(self, nodes, hop1, hop2, mask1, mask2):
        x, x1, x2 = self.node_embedding(nodes), self.node_embedding(hop1), self.node_embedding(hop2)
        centre = self.conv1(x, x1, mask1)
        around = self.conv1(x1, x2, mask2)
        embeddings = F.normalize(self.conv2(centre, around, mask1), p=2, dim=-1)
        return centre, embeddings


def loss(model, nodes, hop1, hop2, mask1, mask2):
    centre, embeddings = model(nodes.long(), hop1.long(), hop2.long(), mask1, mask2)
    source, destination, negative = embeddings.unbind(dim=1)
    affinity = (source * destination).sum(dim=-1)
    negative_affinity = source @ negative.t()
    hinge = F.relu(negative_affinity - affinity.unsqueeze(1) + 0.1)
    link_loss = hinge.sum() / nodes.size(0)
    decay = sum(p.pow(2).sum() for name, p in model.named_parameters() if "embedding" not in name)
    with torch.no_grad():
        rank = 1 + (negative_affinity > affinity.unsqueeze(1)).sum(dim=1)
        mrr = (1.0 / rank.to(affinity.dtype)).mean()
    return link_loss + 1e-3 * 0.5 * decay, {
        "centre": centre.flatten(0, 1), "embeddings": embeddings, "affinity": affinity, "link_loss": link_loss,
        "mrr": mrr,
    }


class RMSprop(torch.optim.Optimizer):
    """TensorFlow's: the mean square starts at one, epsilon is inside the root, the rate inside the momentum."""

    def __init__(self, params, lr, alpha, momentum, eps):
        super().__init__(params, {"lr": lr, "alpha": alpha, "momentum": momentum, "eps": eps})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["square_avg"] = torch.ones_like(p)
                    state["momentum_buffer"] = torch.zeros_like(p)
                square_avg, buffer = state["square_avg"], state["momentum_buffer"]
                square_avg.add_(p.grad.pow(2) - square_avg, alpha=1 - group["alpha"])
                scaled = p.grad / (square_avg + group["eps"]).sqrt()
                buffer.mul_(group["momentum"]).add_(scaled, alpha=group["lr"])
                p.sub_(buffer)


def optimizer(model):
    return RMSprop(model.parameters(), lr=0.01, alpha=0.9, momentum=0.5, eps=1e-6)


def step(model, optimizer, scheduler, nodes, hop1, hop2, mask1, mask2):
    optimizer.zero_grad()
    total, outputs = loss(model, nodes, hop1, hop2, mask1, mask2)
    total.backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.05)
    optimizer.step()
    return total, outputs
