"""Child-sum Tree-LSTM. Trees of a batch are composed node by node; slot 0 of the states is the missing child."""

import torch
from torch import nn
from torch.nn import functional as F


class ChildSumCell(nn.Module):
    def __init__(self, in_dim, mem_dim):
        super().__init__()
        self.ioux = nn.Linear(in_dim, 3 * mem_dim)
        self.iouh = nn.Linear(mem_dim, 3 * mem_dim, bias=False)
        self.fx = nn.Linear(in_dim, mem_dim)
        self.fh = nn.Linear(mem_dim, mem_dim, bias=False)

    def forward(self, x, child_h, child_c):
        """x: [batch, in], child_h and child_c: [batch, children, mem]."""
        h_sum = child_h.sum(dim=1)
        i, o, u = (self.ioux(x) + self.iouh(h_sum)).chunk(3, dim=1)
        f = torch.sigmoid(self.fx(x).unsqueeze(1) + self.fh(child_h))
        c = torch.sigmoid(i) * torch.tanh(u) + (f * child_c).sum(dim=1)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, c


class Model(nn.Module):
    def __init__(self, vocab_size=30, in_dim=8, mem_dim=12, num_classes=5):
        super().__init__()
        self.mem_dim = mem_dim
        self.emb = nn.Embedding(vocab_size, in_dim)
        self.cell = ChildSumCell(in_dim, mem_dim)
        self.classifier = nn.Linear(mem_dim, num_classes)

    def forward(self, words, left, right):
        batch, nodes = words.shape
        x = self.emb(words) * (words > 0).unsqueeze(-1)
        children = torch.stack([left, right], dim=2)
        rows = torch.arange(batch, device=words.device).unsqueeze(1)
        nothing = x.new_zeros(batch, self.mem_dim)
        hs, cs = [nothing], [nothing]
        for t in range(nodes):
            index = children[:, t]
            child_h = torch.stack(hs, dim=1)[rows, index]
            child_c = torch.stack(cs, dim=1)[rows, index]
            h, c = self.cell(x[:, t], child_h, child_c)
            hs.append(h)
            cs.append(c)
        states = torch.stack(hs[1:], dim=1)
        return states, self.classifier(states)


def loss(model, words, left, right, sizes, mask, labels):
    labels = labels.long()
    states, logits = model(words.long(), left.long(), right.long())
    losses = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view_as(mask)
    node_loss = (losses * mask).sum() / mask.sum()
    root = torch.arange(len(sizes), device=sizes.device), sizes.long() - 1
    root_logits = logits[root]
    root_loss = F.cross_entropy(root_logits, labels[root])
    l2 = sum(p.pow(2).sum() for name, p in model.named_parameters() if "emb." not in name)
    total = node_loss + 0.5 * root_loss + 1e-3 / 2 * l2
    return total, {"states": states, "logits": logits, "root_logits": root_logits, "node_loss": node_loss}


def optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.05, initial_accumulator_value=0.1, eps=0.0)
