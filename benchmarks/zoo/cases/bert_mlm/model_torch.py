"""BERT for pre-training: masked language model and next sentence prediction."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Embeddings(nn.Module):
    def __init__(self, vocab_size, d_model, max_positions):
        super().__init__()
        self.word = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_positions, d_model)
        self.token_type = nn.Embedding(2, d_model)
        self.norm = nn.LayerNorm(d_model, eps=1e-12)

    def forward(self, input_ids, token_type_ids):
        positions = torch.arange(input_ids.size(1), device=input_ids.device)
        return self.norm(self.word(input_ids) + self.position(positions) + self.token_type(token_type_ids))


class SelfAttention(nn.Module):
    def __init__(self, d_model, n_head):
        super().__init__()
        self.n_head = n_head
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x, mask):
        batch, length, d_model = x.shape

        def heads(t):
            return t.view(batch, length, self.n_head, -1).transpose(1, 2)

        q, k, v = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        scores = scores.masked_fill(~mask[:, None, None, :], -10000.0)
        context = scores.softmax(dim=-1) @ v
        return self.out(context.transpose(1, 2).reshape(batch, length, d_model))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, n_head, d_ff):
        super().__init__()
        self.attention = SelfAttention(d_model, n_head)
        self.norm1 = nn.LayerNorm(d_model, eps=1e-12)
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.norm2 = nn.LayerNorm(d_model, eps=1e-12)

    def forward(self, x, mask):
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.linear2(F.gelu(self.linear1(x))))


class Pooler(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.dense = nn.Linear(d_model, d_model)

    def forward(self, hidden):
        return torch.tanh(self.dense(hidden[:, 0]))


class MaskedLMHead(nn.Module):
    """Predicts the tokens at the masked positions only."""

    def __init__(self, embedding):
        super().__init__()
        vocab_size, d_model = embedding.weight.shape
        self.dense = nn.Linear(d_model, d_model)
        self.norm = nn.LayerNorm(d_model, eps=1e-12)
        self.decoder = nn.Linear(d_model, vocab_size)
        self.decoder.weight = embedding.weight

    def forward(self, hidden, positions):
        rows = torch.arange(hidden.size(0), device=hidden.device).unsqueeze(1)
        masked = hidden[rows, positions]
        return self.decoder(self.norm(F.gelu(self.dense(masked))))


class Model(nn.Module):
    def __init__(self, vocab_size=67, d_model=28, n_layer=2, n_head=4, d_ff=40, max_positions=20):
        super().__init__()
        self.embeddings = Embeddings(vocab_size, d_model, max_positions)
        self.layers = nn.ModuleList(EncoderLayer(d_model, n_head, d_ff) for _ in range(n_layer))
        self.pooler = Pooler(d_model)
        self.lm_head = MaskedLMHead(self.embeddings.word)
        self.seq_relationship = nn.Linear(d_model, 2)

    def forward(self, input_ids, mask, token_type_ids, positions):
        embedded = self.embeddings(input_ids, token_type_ids)
        hidden = embedded
        for layer in self.layers:
            hidden = layer(hidden, mask)
        pooled = self.pooler(hidden)
        return embedded, hidden, pooled, self.lm_head(hidden, positions), self.seq_relationship(pooled)


def loss(model, input_ids, input_mask, segment_ids, masked_lm_positions, masked_lm_ids, masked_lm_weights, next_sentence_labels):
    embedded, hidden, pooled, lm_logits, nsp_logits = model(
        input_ids.long(), input_mask.bool(), segment_ids.long(), masked_lm_positions.long()
    )
    losses = F.cross_entropy(lm_logits.flatten(0, 1), masked_lm_ids.long().flatten(), reduction="none")
    weights = masked_lm_weights.flatten()
    masked_lm_loss = (losses * weights).sum() / (weights.sum() + 1e-5)
    next_sentence_loss = F.cross_entropy(nsp_logits, next_sentence_labels.long())
    return masked_lm_loss + next_sentence_loss, {
        "embedded": embedded,
        "sequence_output": hidden,
        "pooled_output": pooled,
        "nsp_logits": nsp_logits,
        "masked_lm_loss": masked_lm_loss,
        "next_sentence_loss": next_sentence_loss,
    }


class BertAdam(torch.optim.Optimizer):
    """Adam with decoupled weight decay and without bias correction."""

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.05):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["exp_avg"] = torch.zeros_like(p)
                    state["exp_avg_sq"] = torch.zeros_like(p)
                exp_avg, exp_avg_sq = state["exp_avg"], state["exp_avg_sq"]
                exp_avg.mul_(beta1).add_(p.grad, alpha=1 - beta1)
                exp_avg_sq.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                update = exp_avg / (exp_avg_sq.sqrt() + group["eps"])
                if group["weight_decay"] > 0:
                    update = update + group["weight_decay"] * p
                p.sub_(group["lr"] * update)


def optimizer(model):
    decay, no_decay = [], []
    for name, p in model.named_parameters():
        (no_decay if name.endswith("bias") or "norm" in name else decay).append(p)
    return BertAdam([{"params": decay}, {"params": no_decay, "weight_decay": 0.0}])
