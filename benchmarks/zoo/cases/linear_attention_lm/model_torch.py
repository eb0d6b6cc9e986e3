"""Linear transformer as a recurrent network: a matrix and a vector of running sums per head."""

import torch
import torch.nn.functional as F
from torch import nn

MAX_NORM = 0.25


def feature_map(x):
    return F.elu(x) + 1


class LinearAttention(nn.Module):
    def __init__(self, width, heads, eps=1e-6):
        super().__init__()
        self.heads = heads
        self.eps = eps
        self.to_q = nn.Linear(width, width, bias=False)
        self.to_k = nn.Linear(width, width, bias=False)
        self.to_v = nn.Linear(width, width, bias=False)
        self.to_out = nn.Linear(width, width)

    def forward(self, x, mask):
        batch, length, width = x.shape
        split = (batch, length, self.heads, width // self.heads)
        queries = feature_map(self.to_q(x).view(split))
        keys = feature_map(self.to_k(x).view(split))
        keys = keys * mask[:, :, None, None]
        values = self.to_v(x).view(split)

        memory = x.new_zeros(batch, self.heads, split[-1], split[-1])
        normaliser = x.new_zeros(batch, self.heads, split[-1])
        outputs = []
        for t in range(length):
            q, k, v = queries[:, t], keys[:, t], values[:, t]
            memory = memory + k.unsqueeze(-1) * v.unsqueeze(-2)
            normaliser = normaliser + k
            read = torch.einsum("bhd,bhde->bhe", q, memory)
            outputs.append(read / ((q * normaliser).sum(-1, keepdim=True) + self.eps))
        return self.to_out(torch.stack(outputs, dim=1).flatten(2))


class Layer(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.ln_attn = nn.LayerNorm(width)
        self.attn = LinearAttention(width, heads)
        self.ln_mlp = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    def forward(self, x, mask):
        x = x + self.attn(self.ln_attn(x), mask)
        return x + self.mlp(self.ln_mlp(x))


class LinearTransformer(nn.Module):
    def __init__(self, vocab=36, max_len=14, width=24, heads=3, depth=2):
        super().__init__()
        self.wte = nn.Embedding(vocab, width)
        self.wpe = nn.Embedding(max_len, width)
        self.layers = nn.ModuleList(Layer(width, heads, 2 * width) for _ in range(depth))
        self.ln_out = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)
        self.head.weight = self.wte.weight

    def forward(self, tokens, mask):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.size(1), device=tokens.device))
        states = []
        for layer in self.layers:
            x = layer(x, mask)
            states.append(x)
        return states, self.head(self.ln_out(x))


def make_model():
    return LinearTransformer()


def loss(model, tokens, labels, mask):
    states, logits = model(tokens.long(), mask)
    losses = F.cross_entropy(logits.flatten(0, 1), labels.long().flatten(), reduction="none").view_as(mask)
    mean = (losses * mask).sum() / mask.sum()
    return mean, {"layer_0": states[0], "layer_1": states[1], "logits": logits}


def make_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, nesterov=True)


def make_scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 / (1 + 0.5 * n))


def clip_gradients(parameters, max_norm):
    """As tf.clip_by_global_norm: nothing is added to the norm."""
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.stack([g.norm() for g in grads]).norm()
    if norm > max_norm:
        for g in grads:
            g.mul_(max_norm / norm)


def train_step(model, optimizer, scheduler, tokens, labels, mask):
    optimizer.zero_grad()
    mean, outputs = loss(model, tokens, labels, mask)
    mean.backward()
    clip_gradients(list(model.parameters()), MAX_NORM)
    optimizer.step()
    scheduler.step()
    return mean, outputs
