"""RoBERTa for sentence classification, with the layer-wise decay in the loss and a linear schedule with warmup."""

import math
import re

import torch
from torch import nn
from torch.nn import functional as F


class Embeddings(nn.Module):
    def __init__(self, vocab_size, max_positions, hidden_size, padding_idx=1):
        super().__init__()
        self.padding_idx = padding_idx
        self.word_embeddings = nn.Embedding(vocab_size, hidden_size)
        self.position_embeddings = nn.Embedding(max_positions, hidden_size)
        self.layer_norm = nn.LayerNorm(hidden_size, eps=1e-12)

    def forward(self, input_ids):
        mask = input_ids.ne(self.padding_idx).long()
        position_ids = mask.cumsum(dim=1) * mask + self.padding_idx
        return self.layer_norm(self.word_embeddings(input_ids) + self.position_embeddings(position_ids))


class SelfAttention(nn.Module):
    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = nn.Linear(hidden_size, hidden_size)
        self.k_proj = nn.Linear(hidden_size, hidden_size)
        self.v_proj = nn.Linear(hidden_size, hidden_size)
        self.out_proj = nn.Linear(hidden_size, hidden_size)

    def heads(self, x):
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def forward(self, x, attention_mask):
        q, k, v = self.heads(self.q_proj(x)), self.heads(self.k_proj(x)), self.heads(self.v_proj(x))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        scores = scores + (1.0 - attention_mask[:, None, None, :]) * -10000.0
        context = scores.softmax(dim=-1) @ v
        return self.out_proj(context.transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    def __init__(self, hidden_size, num_heads, intermediate_size):
        super().__init__()
        self.self_attn = SelfAttention(hidden_size, num_heads)
        self.self_attn_layer_norm = nn.LayerNorm(hidden_size, eps=1e-12)
        self.fc1 = nn.Linear(hidden_size, intermediate_size)
        self.fc2 = nn.Linear(intermediate_size, hidden_size)
        self.final_layer_norm = nn.LayerNorm(hidden_size, eps=1e-12)

    def forward(self, x, attention_mask):
        x = self.self_attn_layer_norm(x + self.self_attn(x, attention_mask))
        return self.final_layer_norm(x + self.fc2(F.gelu(self.fc1(x))))


class Pooler(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.dense = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states):
        return torch.tanh(self.dense(hidden_states[:, 0]))


class Model(nn.Module):
    def __init__(self, vocab_size=70, max_positions=14, hidden_size=24, num_heads=3, intermediate_size=40, num_layers=2, num_labels=5):
        super().__init__()
        self.embeddings = Embeddings(vocab_size, max_positions, hidden_size)
        self.encoder = nn.ModuleList(EncoderLayer(hidden_size, num_heads, intermediate_size) for _ in range(num_layers))
        self.pooler = Pooler(hidden_size)
        self.classifier = nn.Linear(hidden_size, num_labels)

    def forward(self, input_ids, attention_mask):
        embedding_output = self.embeddings(input_ids)
        x = embedding_output
        for layer in self.encoder:
            x = layer(x, attention_mask)
        pooled = self.pooler(x)
        return embedding_output, pooled, self.classifier(pooled)


def decay_loss(model, weight_decay=0.01, layer_decay=0.75, num_layers=2):
    """L2 of the weight matrices, less of it the further a layer is from the output."""
    total = 0.0
    for name, parameter in model.named_parameters():
        if parameter.dim() < 2:
            continue
        layer = re.search(r"encoder\.(\d+)\.", name)
        if "embeddings" in name:
            depth = 0
        elif layer:
            depth = int(layer.group(1)) + 1
        else:
            depth = num_layers + 1
        total = total + weight_decay * layer_decay ** (num_layers + 1 - depth) * parameter.pow(2).sum() / 2
    return total


def loss(model, input_ids, input_mask, labels):
    embedding_output, pooled, logits = model(input_ids.long(), input_mask)
    cross_entropy = F.cross_entropy(logits, labels.long())
    total = cross_entropy + decay_loss(model)
    return total, {"embedding_output": embedding_output, "pooled": pooled, "logits": logits, "cross_entropy": cross_entropy}


class Adam(torch.optim.Optimizer):
    """Adam in the first form of its paper, where epsilon is added to the uncorrected root."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

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
                exp_avg, exp_avg_sq = state["exp_avg"], state["exp_avg_sq"]
                exp_avg.mul_(beta1).add_(p.grad, alpha=1 - beta1)
                exp_avg_sq.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                step_size = group["lr"] * math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
                p.addcdiv_(exp_avg, exp_avg_sq.sqrt().add_(group["eps"]), value=-step_size)


def optimizer(model):
    return Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.98), eps=1e-6)


def scheduler(optimizer, warmup_steps=2, total_steps=10):
    def factor(step):
        if step < warmup_steps:
            return step / warmup_steps
        return max(0.0, 1.0 - step / total_steps)

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
