"""ALBERT for pre-training in torch: one layer, shared over the depth."""
import math

import torch
from torch import nn
import torch.nn.functional as F

WEIGHT_DECAY = 0.01


class Embeddings(nn.Module):
    def __init__(self, vocab, positions, types, size):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab, size)
        self.position_embeddings = nn.Embedding(positions, size)
        self.token_type_embeddings = nn.Embedding(types, size)
        self.norm = nn.LayerNorm(size, eps=1e-12)

    def forward(self, input_ids, segment_ids):
        positions = torch.arange(input_ids.size(1), device=input_ids.device)
        x = self.word_embeddings(input_ids) + self.position_embeddings(positions)
        return self.norm(x + self.token_type_embeddings(segment_ids))


class SelfAttention(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.hidden, self.heads, self.head_dim = hidden, heads, hidden // heads
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden, bias=False)
        self.value = nn.Linear(hidden, hidden)
        self.dense = nn.Linear(hidden, hidden)

    def split(self, x):
        return x.view(*x.shape[:2], self.heads, self.head_dim).transpose(1, 2)

    def forward(self, x, bias):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.head_dim)
        context = (scores + bias).softmax(-1) @ v
        return self.dense(context.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, hidden, heads, intermediate):
        super().__init__()
        self.attention = SelfAttention(hidden, heads)
        self.attention_norm = nn.LayerNorm(hidden, eps=1e-12)
        self.ffn = nn.Linear(hidden, intermediate)
        self.activation = nn.GELU(approximate="tanh")
        self.ffn_output = nn.Linear(intermediate, hidden)
        self.full_layer_norm = nn.LayerNorm(hidden, eps=1e-12)

    def forward(self, x, bias):
        x = self.attention_norm(x + self.attention(x, bias))
        return self.full_layer_norm(x + self.ffn_output(self.activation(self.ffn(x))))


class MaskedLMHead(nn.Module):
    def __init__(self, hidden, embeddings):
        super().__init__()
        vocab, size = embeddings.weight.shape
        self.dense = nn.Linear(hidden, size)
        self.norm = nn.LayerNorm(size, eps=1e-12)
        self.decoder_weight = embeddings.weight
        self.bias = nn.Parameter(torch.zeros(vocab))

    def forward(self, x):
        x = self.norm(F.gelu(self.dense(x), approximate="tanh"))
        return F.linear(x, self.decoder_weight, self.bias)


class Model(nn.Module):
    def __init__(self, vocab=61, positions=12, types=2, embedding=10, hidden=24, heads=3, intermediate=38, num_layers=3):
        super().__init__()
        self.num_layers = num_layers
        self.embeddings = Embeddings(vocab, positions, types, embedding)
        self.mapping_in = nn.Linear(embedding, hidden)
        self.layer = Layer(hidden, heads, intermediate)
        self.pooler = nn.Linear(hidden, hidden)
        self.lm_head = MaskedLMHead(hidden, self.embeddings.word_embeddings)
        self.seq_relationship = nn.Linear(hidden, 2)

    def forward(self, input_ids, input_mask, segment_ids, masked_positions):
        bias = (1.0 - input_mask[:, None, None, :]) * -10000.0
        x = self.mapping_in(self.embeddings(input_ids, segment_ids))
        for _ in range(self.num_layers):
            x = self.layer(x, bias)
        pooled = torch.tanh(self.pooler(x[:, 0]))
        rows = torch.arange(x.size(0), device=x.device)[:, None]
        return x, pooled, self.lm_head(x[rows, masked_positions.long()]), self.seq_relationship(pooled)


def loss(model, input_ids, input_mask, segment_ids, masked_lm_positions, masked_lm_ids, masked_lm_weights, next_sentence_labels):
    sequence, pooled, lm_logits, nsp_logits = model(input_ids, input_mask, segment_ids, masked_lm_positions)
    nll = F.cross_entropy(lm_logits.transpose(1, 2), masked_lm_ids.long(), reduction="none")
    masked_lm = (nll * masked_lm_weights).sum() / (masked_lm_weights.sum() + 1e-5)
    next_sentence = F.cross_entropy(nsp_logits, next_sentence_labels.long())
    decay = sum(m.weight.square().sum() for m in model.modules() if isinstance(m, nn.Linear)) / 2
    outputs = {"sequence_output": sequence, "pooled_output": pooled,
               "masked_lm_log_probs": lm_logits.log_softmax(-1), "next_sentence_logits": nsp_logits}
    return masked_lm + next_sentence + WEIGHT_DECAY * decay, outputs


class TFAdam(torch.optim.Optimizer):
    """Adam as TensorFlow 1 has it: epsilon beside the uncorrected root of the second moment."""

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
                    state.update(step=0, exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
                state["step"] += 1
                state["exp_avg"].lerp_(p.grad, 1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                lr = group["lr"] * math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
                p.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt().add_(group["eps"]), value=-lr)


def optimizer(model):
    return TFAdam(model.parameters(), lr=0.004, betas=(0.9, 0.999), eps=1e-6)


def scheduler(optimizer, total=30):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / total))
