"""GIN with bond features for multi-task molecule classification."""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm1d(nn.BatchNorm1d):
    """The running variance is the biased one."""

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                var, mean = torch.var_mean(x, dim=0, unbiased=False)
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var, self.momentum)
            return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)


class FeatureEncoder(nn.Module):
    """Sums one embedding for every categorical feature."""

    def __init__(self, sizes, emb_dim):
        super().__init__()
        self.embedding_list = nn.ModuleList(nn.Embedding(size, emb_dim) for size in sizes)

    def forward(self, features):
        return sum(embedding(features[:, i]) for i, embedding in enumerate(self.embedding_list))


class GINConv(nn.Module):
    def __init__(self, emb_dim):
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(emb_dim, 2 * emb_dim), BatchNorm1d(2 * emb_dim), nn.ReLU(), nn.Linear(2 * emb_dim, emb_dim)
        )
        self.eps = nn.Parameter(torch.zeros(()))
        self.bond_encoder = FeatureEncoder((4, 2), emb_dim)

    def forward(self, x, edge_index, edge_attr):
        source, target = edge_index
        messages = F.relu(x[source] + self.bond_encoder(edge_attr))
        aggregated = torch.zeros_like(x).index_add(0, target, messages)
        return self.mlp((1 + self.eps) * x + aggregated)


class NodeEncoder(nn.Module):
    def __init__(self, num_layers, emb_dim):
        super().__init__()
        self.atom_encoder = FeatureEncoder((9, 4, 6), emb_dim)
        self.convs = nn.ModuleList(GINConv(emb_dim) for _ in range(num_layers))
        self.batch_norms = nn.ModuleList(BatchNorm1d(emb_dim) for _ in range(num_layers))

    def forward(self, x, edge_index, edge_attr):
        h = self.atom_encoder(x)
        hidden = [h]
        for conv, norm in zip(self.convs, self.batch_norms):
            h = F.relu(norm(conv(h, edge_index, edge_attr)))
            hidden.append(h)
        return hidden


class Model(nn.Module):
    def __init__(self, num_tasks=5, num_layers=3, emb_dim=20):
        super().__init__()
        self.gnn_node = NodeEncoder(num_layers, emb_dim)
        self.linears_prediction = nn.ModuleList(nn.Linear(emb_dim, num_tasks) for _ in range(num_layers + 1))

    def forward(self, x, edge_index, edge_attr, batch, num_graphs):
        score = 0
        for h, linear in zip(self.gnn_node(x, edge_index, edge_attr), self.linears_prediction):
            pooled = h.new_zeros(num_graphs, h.size(1)).index_add(0, batch, h)
            score = score + linear(pooled)
        return score


def collate(atoms, atom_counts, bonds, bond_features, bond_counts):
    """One big graph of the padded molecules."""
    atom_mask = torch.arange(atoms.size(1), device=atoms.device) < atom_counts[:, None]
    bond_mask = torch.arange(bonds.size(1), device=atoms.device) < bond_counts[:, None]
    batch = torch.arange(len(atoms), device=atoms.device).repeat_interleave(atom_counts)
    offsets = atom_counts.cumsum(0) - atom_counts
    edge_index = (bonds + offsets[:, None, None])[bond_mask].t()
    return atoms[atom_mask], edge_index, bond_features[bond_mask], batch, len(atoms)


def loss(model, atoms, atom_counts, bonds, bond_features, bond_counts, labels, label_weights):
    graph = collate(atoms.long(), atom_counts.long(), bonds.long(), bond_features.long(), bond_counts.long())
    logits = model(*graph)
    losses = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    return (losses * label_weights).sum() / label_weights.sum(), {"logits": logits}


class Adam(torch.optim.Optimizer):
    """Adam in the form at the end of section 2 of the paper: epsilon is added before the bias is corrected."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p)
                    state["exp_avg_sq"] = torch.zeros_like(p)
                state["step"] += 1
                state["exp_avg"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                correction1 = 1 - beta1 ** state["step"]
                correction2 = (1 - beta2 ** state["step"]) ** 0.5
                denom = state["exp_avg_sq"].sqrt().add_(group["eps"])
                p.addcdiv_(state["exp_avg"], denom, value=-group["lr"] * correction2 / correction1)


def optimizer(model):
    return Adam(model.parameters(), lr=0.005, eps=1e-3)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
