"""Set Transformer for counting: ISAB encoder, PMA and a DeepSets mean, Poisson regression."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class MAB(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.dim = dim
        self.num_heads = num_heads
        self.fc_q = nn.Linear(dim, dim)
        self.fc_k = nn.Linear(dim, dim)
        self.fc_v = nn.Linear(dim, dim)
        self.ln0 = nn.LayerNorm(dim, eps=1e-6)
        self.ln1 = nn.LayerNorm(dim, eps=1e-6)
        self.fc_o = nn.Linear(dim, dim)

    def forward(self, Q, K, mask=None):
        n, length = Q.shape[:2]
        head_dim = self.dim // self.num_heads
        Q, V, K = self.fc_q(Q), self.fc_v(K), self.fc_k(K)
        q = Q.view(n, length, self.num_heads, head_dim).transpose(1, 2)
        k = K.view(n, -1, self.num_heads, head_dim).transpose(1, 2)
        v = V.view(n, -1, self.num_heads, head_dim).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.dim)
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None, :], float("-inf"))
        A = torch.softmax(scores, dim=-1)
        O = Q + (A @ v).transpose(1, 2).reshape(n, length, self.dim)
        O = self.ln0(O)
        O = O + F.relu(self.fc_o(O))
        return self.ln1(O)


class ISAB(nn.Module):
    def __init__(self, dim, num_heads, num_inds):
        super().__init__()
        self.I = nn.Parameter(torch.empty(1, num_inds, dim))
        nn.init.xavier_uniform_(self.I)
        self.mab0 = MAB(dim, num_heads)
        self.mab1 = MAB(dim, num_heads)

    def forward(self, X, mask):
        H = self.mab0(self.I.expand(X.size(0), -1, -1), X, mask)
        return self.mab1(X, H)


class PMA(nn.Module):
    def __init__(self, dim, num_heads, num_seeds=1):
        super().__init__()
        self.S = nn.Parameter(torch.empty(1, num_seeds, dim))
        nn.init.xavier_uniform_(self.S)
        self.mab = MAB(dim, num_heads)

    def forward(self, X, mask):
        return self.mab(self.S.expand(X.size(0), -1, -1), X, mask)


class MaskedMean(nn.Module):
    def forward(self, X, mask):
        weights = mask.to(X.dtype).unsqueeze(-1)
        return (X * weights).sum(dim=1) / weights.sum(dim=1)


class SetTransformer(nn.Module):
    def __init__(self, dim_input=6, dim=24, num_heads=3, num_inds=4):
        super().__init__()
        self.embedding = nn.Linear(dim_input, dim)
        self.isab1 = ISAB(dim, num_heads, num_inds)
        self.isab2 = ISAB(dim, num_heads, num_inds)
        self.pma = PMA(dim, num_heads)
        self.phi = nn.Linear(dim, dim)
        self.mean = MaskedMean()
        self.rho = nn.Linear(2 * dim, dim)
        self.log_rate = nn.Linear(dim, 1)

    def forward(self, elements, mask):
        embedded = torch.tanh(self.embedding(elements))
        encoded = self.isab2(self.isab1(embedded, mask), mask)
        attended = self.pma(encoded, mask).squeeze(1)
        averaged = self.mean(F.relu(self.phi(embedded)), mask)
        hidden = F.relu(self.rho(torch.cat([attended, averaged], dim=1)))
        return {"encoded": encoded, "attended": attended, "averaged": averaged,
                "log_rate": self.log_rate(hidden).squeeze(1)}


def loss(model, elements, mask, counts):
    out = model(elements, mask > 0.5)
    return F.poisson_nll_loss(out["log_rate"], counts, log_input=True), out


class Adam(torch.optim.Adam):
    """torch's Adam with an epsilon outside of the bias correction, as TensorFlow has it."""

    def __init__(self, params, lr, betas, eps):
        super().__init__(params, lr=lr, betas=betas, eps=eps)
        self.epsilon = eps
        self.steps = 0

    def step(self, closure=None):
        self.steps += 1
        for group in self.param_groups:
            group["eps"] = self.epsilon / math.sqrt(1 - group["betas"][1] ** self.steps)
        return super().step(closure)


def optimizer(model):
    return Adam(model.parameters(), lr=2e-3, betas=(0.8, 0.99), eps=1e-4)


def rate(step):
    return 2e-3 * math.exp(-0.1 * step)
