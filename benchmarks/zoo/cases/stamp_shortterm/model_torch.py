import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.w1 = nn.Linear(dim, dim, bias=False)
        self.w2 = nn.Linear(dim, dim, bias=False)
        self.w3 = nn.Linear(dim, dim, bias=False)
        self.w0 = nn.Linear(dim, 1, bias=False)

    def forward(self, session, last, mean, mask):
        mixed = self.w1(session) + self.w2(last).unsqueeze(1) + self.w3(mean).unsqueeze(1)
        alpha = self.w0(torch.sigmoid(mixed)).squeeze(-1)
        alpha = alpha.masked_fill(mask == 0, 0.0)
        return torch.einsum("bt,btd->bd", alpha, session), alpha


class STAMP(nn.Module):
    def __init__(self, n_items=50, dim=16):
        super().__init__()
        self.item_embedding = nn.Parameter(torch.empty(n_items + 1, dim))
        self.register_buffer("not_padding", torch.ones(n_items + 1, 1))
        self.not_padding[0] = 0
        self.attention = Attention(dim)
        self.mlp_a = nn.Sequential(nn.Linear(dim, dim, bias=False), nn.Tanh())
        self.mlp_b = nn.Sequential(nn.Linear(dim, dim, bias=False), nn.Tanh())
        nn.init.normal_(self.item_embedding, std=0.3)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.08)

    @staticmethod
    def renorm(rows):
        """Rows longer than 1 are shortened to it, in the graph (nn.Embedding's max_norm would write to the table)."""
        return rows / rows.norm(dim=-1, keepdim=True).clamp(min=1.0)

    def forward(self, items, last, mask):
        table = self.item_embedding * self.not_padding
        session = self.renorm(F.embedding(items, table))
        m_t = self.renorm(F.embedding(last, table))
        m_s = session.sum(1) / mask.sum(1, keepdim=True)
        m_a, alpha = self.attention(session, m_t, m_s, mask)
        h_s = self.mlp_a(m_a + m_s)
        h_t = self.mlp_b(m_t)
        return torch.einsum("bd,bd,vd->bv", h_s, h_t, table[1:]), alpha


def loss(model, inputs, last_inputs, bitmap, lab_input):
    scores, alpha = model(inputs.long(), last_inputs.long(), bitmap)
    return F.cross_entropy(scores, lab_input.long(), reduction="mean"), {"alpha": alpha, "scores": scores}


class Adam(torch.optim.Optimizer):
    """Adam with the bias corrections in the step size, so that epsilon is added to the uncorrected root."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8):
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
                state["exp_avg"].lerp_(p.grad, 1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                size = group["lr"] * (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
                p.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt().add_(group["eps"]), value=-size)


def optimizer(model):
    return Adam(model.parameters(), lr=0.005)


def clip_by_global_norm(parameters, limit):
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.sqrt(sum(g.pow(2).sum() for g in grads))
    for g in grads:
        g.mul_(limit / norm.clamp(min=limit))


def step(model, optimizer, scheduler, **batch):
    optimizer.zero_grad()
    value, outputs = loss(model, **batch)
    value.backward()
    clip_by_global_norm(model.parameters(), 0.15)
    optimizer.step()
    return value, outputs
