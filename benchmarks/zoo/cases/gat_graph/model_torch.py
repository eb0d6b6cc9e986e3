import torch
import torch.nn.functional as F
from torch import nn


class AttentionHead(nn.Module):
    """One head of graph attention; `visible` is true where a node (row) may look at another (column)."""

    def __init__(self, in_features, out_features, residual=False):
        super().__init__()
        self.project = nn.Linear(in_features, out_features, bias=False)
        self.source = nn.Linear(out_features, 1)
        self.target = nn.Linear(out_features, 1)
        self.bias = nn.Parameter(torch.zeros(out_features))
        self.shortcut = nn.Linear(in_features, out_features) if residual else None

    def forward(self, nodes, visible):
        values = self.project(nodes)
        scores = self.source(values) + self.target(values).transpose(1, 2)
        scores = F.leaky_relu(scores, 0.2)
        scores = scores.masked_fill(~visible, -1e9)
        out = scores.softmax(dim=-1) @ values + self.bias
        if self.shortcut is not None:
            out = out + self.shortcut(nodes)
        return out


class Model(nn.Module):
    def __init__(self, features=17, hidden=6, classes=5, heads=3, out_heads=2):
        super().__init__()
        self.heads = nn.ModuleList(AttentionHead(features, hidden) for _ in range(heads))
        self.out_heads = nn.ModuleList(AttentionHead(heads * hidden, classes, residual=True) for _ in range(out_heads))

    def forward(self, features, adjacency):
        visible = (adjacency + torch.eye(adjacency.shape[1], dtype=adjacency.dtype, device=adjacency.device)) > 0
        x = features / features.sum(dim=-1, keepdim=True).clamp(min=1.0)
        hidden = torch.cat([F.elu(head(x, visible)) for head in self.heads], dim=-1)
        logits = torch.stack([head(hidden, visible) for head in self.out_heads]).mean(dim=0)
        return hidden, logits


def loss(model, features, adjacency, labels, mask):
    hidden, logits = model(features, adjacency)
    labels = labels.long()
    cross_entropy = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    value = (cross_entropy * mask).sum() / mask.sum()
    decay = sum(p.square().sum() for p in model.parameters())
    correct = (logits.argmax(dim=-1) == labels).to(mask.dtype)
    accuracy = (correct * mask).sum() / mask.sum()
    return value + 0.002 / 2 * decay, {"hidden": hidden, "logits": logits, "accuracy": accuracy}
