import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.optimizer import Optimizer

VOCAB, N_CTX, CLF_TOKEN = 45, 12, 32
LM_COEF = 0.5


class LayerNorm(nn.Module):
    def __init__(self, n_state, e=1e-5):
        super().__init__()
        self.g = nn.Parameter(torch.ones(n_state))
        self.b = nn.Parameter(torch.zeros(n_state))
        self.e = e

    def forward(self, x):
        u = x.mean(-1, keepdim=True)
        s = (x - u).pow(2).mean(-1, keepdim=True)
        return self.g * ((x - u) / torch.sqrt(s + self.e)) + self.b


class Conv1D(nn.Module):
    """A convolution of width 1, with the kernel as TensorFlow has it."""

    def __init__(self, nf, nx):
        super().__init__()
        self.nf = nf
        self.w = nn.Parameter(torch.empty(nx, nf).normal_(std=0.1))
        self.b = nn.Parameter(torch.zeros(nf))

    def forward(self, x):
        out = torch.addmm(self.b, x.reshape(-1, x.size(-1)), self.w)
        return out.view(*x.size()[:-1], self.nf)


class Attention(nn.Module):
    def __init__(self, nx, n_ctx, n_head):
        super().__init__()
        self.register_buffer("bias", torch.tril(torch.ones(n_ctx, n_ctx)).view(1, 1, n_ctx, n_ctx))
        self.n_head = n_head
        self.split_size = nx
        self.c_attn = Conv1D(nx * 3, nx)
        self.c_proj = Conv1D(nx, nx)

    def split_heads(self, x, k=False):
        x = x.view(*x.size()[:-1], self.n_head, x.size(-1) // self.n_head)
        return x.permute(0, 2, 3, 1) if k else x.permute(0, 2, 1, 3)

    def merge_heads(self, x):
        x = x.permute(0, 2, 1, 3).contiguous()
        return x.view(x.size(0), -1, self.split_size)

    def _attn(self, q, k, v):
        w = torch.matmul(q, k) / math.sqrt(v.size(-1))
        w = w * self.bias + -1e9 * (1 - self.bias)
        return torch.matmul(F.softmax(w, dim=-1), v)

    def forward(self, x):
        query, key, value = self.c_attn(x).split(self.split_size, dim=2)
        a = self._attn(self.split_heads(query), self.split_heads(key, k=True), self.split_heads(value))
        return self.c_proj(self.merge_heads(a))


class MLP(nn.Module):
    def __init__(self, n_state, nx):
        super().__init__()
        self.c_fc = Conv1D(n_state, nx)
        self.c_proj = Conv1D(nx, n_state)
        self.act = nn.GELU(approximate="tanh")

    def forward(self, x):
        return self.c_proj(self.act(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self, nx, n_ctx, n_head):
        super().__init__()
        self.attn = Attention(nx, n_ctx, n_head)
        self.ln_1 = LayerNorm(nx)
        self.mlp = MLP(4 * nx, nx)
        self.ln_2 = LayerNorm(nx)

    def forward(self, x):
        n = self.ln_1(x + self.attn(x))
        return self.ln_2(n + self.mlp(n))


class TransformerModel(nn.Module):
    def __init__(self, vocab, n_ctx, n_embd, n_head, n_layer):
        super().__init__()
        self.embed = nn.Embedding(vocab, n_embd)
        nn.init.normal_(self.embed.weight, std=0.1)
        block = Block(n_embd, n_ctx, n_head)
        self.h = nn.ModuleList([copy.deepcopy(block) for _ in range(n_layer)])

    def forward(self, x):
        h = self.embed(x).sum(dim=2)
        states = []
        for block in self.h:
            h = block(h)
            states.append(h)
        return states


class LMHead(nn.Module):
    def __init__(self, transformer):
        super().__init__()
        vocab, n_embd = transformer.embed.weight.shape
        self.decoder = nn.Linear(n_embd, vocab, bias=False)
        self.decoder.weight = transformer.embed.weight

    def forward(self, h):
        return self.decoder(h[:, :-1])


class ClfHead(nn.Module):
    def __init__(self, n_embd, clf_token):
        super().__init__()
        self.clf_token = clf_token
        self.linear = nn.Linear(n_embd, 1)
        nn.init.normal_(self.linear.weight, std=0.1)
        nn.init.zeros_(self.linear.bias)

    def forward(self, h, x):
        h = h.reshape(-1, h.size(-1))
        flat = x[:, :, 0].reshape(-1)
        clf_h = h[flat == self.clf_token, :]
        return self.linear(clf_h).view(-1, 2)


class Model(nn.Module):
    def __init__(self, n_embd=16, n_head=2, n_layer=2):
        super().__init__()
        self.transformer = TransformerModel(VOCAB, N_CTX, n_embd, n_head, n_layer)
        self.lm_head = LMHead(self.transformer)
        self.clf_head = ClfHead(n_embd, CLF_TOKEN)

    def forward(self, x):
        x = x.view(-1, x.size(-2), x.size(-1))
        states = self.transformer(x)
        return states, self.lm_head(states[-1]), self.clf_head(states[-1], x)


def loss(model, X, M, Y):
    X = X.long()
    states, lm_logits, clf_logits = model(X)
    tokens = X[..., 0].view(-1, X.size(2))
    mask = M.view(-1, M.size(2))[:, 1:]
    lm_losses = F.cross_entropy(lm_logits.transpose(1, 2), tokens[:, 1:], reduction="none")
    lm_loss = ((lm_losses * mask).sum(1) / mask.sum(1)).mean()
    clf_loss = F.cross_entropy(clf_logits, Y.long())
    ends = {"h%d" % i: h for i, h in enumerate(states)}
    ends.update(clf_logits=clf_logits, clf_loss=clf_loss, lm_loss=lm_loss)
    return clf_loss + LM_COEF * lm_loss, ends


def warmup_linear(x, warmup):
    return (x / warmup if x <= warmup else 1) * (1 - x)


class OpenAIAdam(Optimizer):
    def __init__(self, params, lr, t_total, warmup, b1=0.9, b2=0.999, e=1e-8, l2=0, max_grad_norm=-1):
        super().__init__(params, dict(lr=lr, t_total=t_total, warmup=warmup, b1=b1, b2=b2, e=e, l2=l2))
        self.max_grad_norm = max_grad_norm

    @torch.no_grad()
    def step(self, closure=None):
        grads = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
        if self.max_grad_norm > 0:
            norm = torch.sqrt(sum(g.pow(2).sum() for g in grads))
            for g in grads:
                g.mul_(self.max_grad_norm / norm.clamp(min=self.max_grad_norm))
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p)
                    state["exp_avg_sq"] = torch.zeros_like(p)
                state["step"] += 1
                m, v, t = state["exp_avg"], state["exp_avg_sq"], state["step"]
                m.mul_(group["b1"]).add_(p.grad, alpha=1 - group["b1"])
                v.mul_(group["b2"]).addcmul_(p.grad, p.grad, value=1 - group["b2"])
                rate = group["lr"] * warmup_linear(t / group["t_total"], group["warmup"])
                rate = rate * math.sqrt(1 - group["b2"] ** t) / (1 - group["b1"] ** t)
                change = m / (v.sqrt() + group["e"])
                if p.dim() > 1:
                    change += group["l2"] * p
                p.sub_(rate * change)


def optimizer(model):
    return OpenAIAdam(model.parameters(), lr=0.005, t_total=12, warmup=0.15, l2=0.05, max_grad_norm=0.4)
