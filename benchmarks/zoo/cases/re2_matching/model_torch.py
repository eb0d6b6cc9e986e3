"""A sentence matcher of stacked encode-align-fuse blocks, and the way it is trained."""
import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm


class Dense(nn.Module):
    def __init__(self, in_features, out_features, activation=True):
        super().__init__()
        linear = nn.Linear(in_features, out_features)
        nn.init.normal_(linear.weight, std=math.sqrt((2 if activation else 1) / in_features))
        nn.init.zeros_(linear.bias)
        self.linear = weight_norm(linear)
        self.act = nn.GELU(approximate="tanh") if activation else nn.Identity()

    def forward(self, x):
        return self.act(self.linear(x))


class Encoder(nn.Module):
    def __init__(self, in_size, hidden, layers, kernel_size):
        super().__init__()
        self.convs = nn.ModuleList()
        for i in range(layers):
            conv = nn.Conv1d(in_size if i == 0 else hidden, hidden, kernel_size, padding=kernel_size // 2)
            nn.init.normal_(conv.weight, std=math.sqrt(2 / (conv.in_channels * kernel_size)))
            nn.init.zeros_(conv.bias)
            self.convs.append(weight_norm(conv))

    def forward(self, x, mask):
        x, mask = x.transpose(1, 2), mask.unsqueeze(1)
        for conv in self.convs:
            x = F.relu(conv(x * mask))
        return x.transpose(1, 2)


class Alignment(nn.Module):
    def __init__(self, in_size, hidden):
        super().__init__()
        self.proj = Dense(in_size, hidden)
        self.temperature = nn.Parameter(torch.tensor(1 / math.sqrt(hidden)))

    def forward(self, a, b, mask_a, mask_b):
        scores = torch.bmm(self.proj(a), self.proj(b).transpose(1, 2)) * self.temperature
        valid = mask_a.bool().unsqueeze(2) & mask_b.bool().unsqueeze(1)
        scores = scores.masked_fill(~valid, -1e9)
        over_a, over_b = scores.softmax(dim=1), scores.softmax(dim=2)
        return torch.bmm(over_b, b), torch.bmm(over_a.transpose(1, 2), a)


class Fusion(nn.Module):
    def __init__(self, in_size, hidden):
        super().__init__()
        self.orig = Dense(2 * in_size, hidden)
        self.sub = Dense(2 * in_size, hidden)
        self.mul = Dense(2 * in_size, hidden)
        self.proj = Dense(3 * hidden, hidden)

    def forward(self, x, aligned):
        orig = self.orig(torch.cat([x, aligned], -1))
        sub = self.sub(torch.cat([x, x - aligned], -1))
        mul = self.mul(torch.cat([x, x * aligned], -1))
        return self.proj(torch.cat([orig, sub, mul], -1))


class AugmentedResidual(nn.Module):
    """Keeps the embeddings in front, and sums what the blocks gave behind them."""

    def __init__(self, hidden, first):
        super().__init__()
        self.hidden, self.first = hidden, first

    def forward(self, x, res):
        if self.first:
            return torch.cat([res, x], -1)
        embedded, former = res[..., :-self.hidden], res[..., -self.hidden:]
        return torch.cat([embedded, (former + x) * math.sqrt(0.5)], -1)


class Block(nn.Module):
    def __init__(self, in_size, hidden, layers, kernel_size):
        super().__init__()
        self.encoder = Encoder(in_size, hidden, layers, kernel_size)
        self.alignment = Alignment(in_size + hidden, hidden)
        self.fusion = Fusion(in_size + hidden, hidden)

    def forward(self, a, b, mask_a, mask_b):
        a = torch.cat([a, self.encoder(a, mask_a)], -1)
        b = torch.cat([b, self.encoder(b, mask_b)], -1)
        aligned_a, aligned_b = self.alignment(a, b, mask_a, mask_b)
        return self.fusion(a, aligned_a), self.fusion(b, aligned_b)


class MaxPooling(nn.Module):
    def forward(self, x, mask):
        return x.masked_fill(mask.unsqueeze(-1) == 0, -1e9).amax(dim=1)


class Model(nn.Module):
    def __init__(self, vocab=60, embed=16, hidden=24, classes=3, blocks=3, layers=2, kernel_size=3):
        super().__init__()
        self.embedding = nn.Embedding(vocab, embed)
        nn.init.normal_(self.embedding.weight, std=0.5)
        sizes = [embed] + [embed + hidden] * (blocks - 1)
        self.blocks = nn.ModuleList(Block(size, hidden, layers, kernel_size) for size in sizes)
        self.connections = nn.ModuleList(AugmentedResidual(hidden, i == 0) for i in range(blocks - 1))
        self.pooling = MaxPooling()
        self.hidden = Dense(4 * hidden, hidden)
        self.classifier = Dense(hidden, classes, activation=False)

    def forward(self, text_a, text_b, mask_a, mask_b, drop):
        a, b = self.embedding(text_a), self.embedding(text_b)
        res_a, res_b = a, b
        for i, block in enumerate(self.blocks):
            if i > 0:
                connect = self.connections[i - 1]
                res_a, res_b = a, b = connect(a, res_a), connect(b, res_b)
            a, b = block(a, b, mask_a, mask_b)
        a, b = self.pooling(a, mask_a), self.pooling(b, mask_b)
        features = torch.cat([a, b, a * b, (a - b).abs()], -1) * drop
        return a, b, self.classifier(self.hidden(features))


def loss(model, text_a, text_b, mask_a, mask_b, drop, target):
    a, b, logits = model(text_a.long(), text_b.long(), mask_a, mask_b, drop)
    return F.cross_entropy(logits, target.long()), {"pooled_a": a, "pooled_b": b, "logits": logits}


class Adam(torch.optim.Optimizer):
    """Adam in the formulation of the paper's section 2: epsilon beside the uncorrected second moment."""

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
                size = group["lr"] * math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
                p.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt().add_(group["eps"]), value=-size)


def optimizer(model):
    return Adam(model.parameters(), lr=0.004)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.8)


def clip_global_norm(parameters, limit):
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.sqrt(sum(g.square().sum() for g in grads))
    for g in grads:
        g.mul_(limit / torch.clamp(norm, min=limit))


def step(model, optimizer, scheduler, **inputs):
    optimizer.zero_grad()
    value, outputs = loss(model, **inputs)
    value.backward()
    clip_global_norm(model.parameters(), 0.1)
    optimizer.step()
    scheduler.step()
    return value, outputs
