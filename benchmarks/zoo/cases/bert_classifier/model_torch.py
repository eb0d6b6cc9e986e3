"""BERT for sequence classification, in the layout of the transformers library."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class BertEmbeddings(nn.Module):
    def __init__(self, vocab_size, hidden_size, max_position):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab_size, hidden_size)
        self.position_embeddings = nn.Embedding(max_position, hidden_size)
        self.LayerNorm = nn.LayerNorm(hidden_size, eps=1e-12)

    def forward(self, input_ids):
        position_ids = torch.arange(input_ids.size(1), device=input_ids.device)
        return self.LayerNorm(self.word_embeddings(input_ids) + self.position_embeddings(position_ids))


class BertSelfAttention(nn.Module):
    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.head_size = hidden_size // num_heads
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)

    def split_heads(self, x):
        return x.view(x.size(0), x.size(1), self.num_heads, self.head_size).transpose(1, 2)

    def forward(self, hidden_states, extended_mask):
        query = self.split_heads(self.query(hidden_states))
        key = self.split_heads(self.key(hidden_states))
        value = self.split_heads(self.value(hidden_states))
        scores = query @ key.transpose(-1, -2) / math.sqrt(self.head_size)
        scores = scores + extended_mask
        probs = F.softmax(scores, dim=-1)
        return (probs @ value).transpose(1, 2).flatten(2)


class BertLayer(nn.Module):
    def __init__(self, hidden_size, num_heads, intermediate_size):
        super().__init__()
        self.attention = BertSelfAttention(hidden_size, num_heads)
        self.attention_output = nn.Linear(hidden_size, hidden_size)
        self.attention_norm = nn.LayerNorm(hidden_size, eps=1e-12)
        self.intermediate = nn.Linear(hidden_size, intermediate_size)
        self.output = nn.Linear(intermediate_size, hidden_size)
        self.output_norm = nn.LayerNorm(hidden_size, eps=1e-12)

    def forward(self, hidden_states, extended_mask):
        attended = self.attention_output(self.attention(hidden_states, extended_mask))
        attended = self.attention_norm(attended + hidden_states)
        output = self.output(F.gelu(self.intermediate(attended)))
        return self.output_norm(output + attended)


class BertPooler(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.dense = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states):
        return torch.tanh(self.dense(hidden_states[:, 0]))


class Model(nn.Module):
    def __init__(self, vocab_size=120, hidden_size=32, num_heads=4, num_layers=2, intermediate_size=64, num_labels=4):
        super().__init__()
        self.embeddings = BertEmbeddings(vocab_size, hidden_size, 16)
        self.layers = nn.ModuleList(BertLayer(hidden_size, num_heads, intermediate_size) for _ in range(num_layers))
        self.pooler = BertPooler(hidden_size)
        self.classifier = nn.Linear(hidden_size, num_labels)

    def forward(self, input_ids, attention_mask):
        extended_mask = (1.0 - attention_mask[:, None, None, :]) * -10000.0
        embedding_output = self.embeddings(input_ids)
        hidden_states = embedding_output
        for layer in self.layers:
            hidden_states = layer(hidden_states, extended_mask)
        return embedding_output, hidden_states, self.classifier(self.pooler(hidden_states))


def loss(model, input_ids, input_mask, label_ids):
    embedding_output, sequence_output, logits = model(input_ids.long(), input_mask)
    outputs = {"embedding_output": embedding_output, "sequence_output": sequence_output, "logits": logits}
    return F.cross_entropy(logits, label_ids.long()), outputs


class Adam(torch.optim.Optimizer):
    """Adam in the order of the original: epsilon joins the root of the uncorrected second moment."""

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
                if len(state) == 0:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p)
                    state["exp_avg_sq"] = torch.zeros_like(p)
                exp_avg, exp_avg_sq = state["exp_avg"], state["exp_avg_sq"]
                state["step"] += 1
                exp_avg.mul_(beta1).add_(p.grad, alpha=1 - beta1)
                exp_avg_sq.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                step_size = group["lr"]
                step_size *= math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
                p.addcdiv_(exp_avg, exp_avg_sq.sqrt().add_(group["eps"]), value=-step_size)


def optimizer(model):
    return Adam(model.parameters(), lr=2e-3, eps=1e-6)


def rate(step):
    """Linear decay to zero over ten updates."""
    return 2e-3 * (1 - min(step, 10) / 10)
