import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

PADDING = -2.0 ** 32 + 1


class BiasEncoding(nn.Module):
    def __init__(self, sess_max_count, sess_len_max, dim):
        super().__init__()
        self.sess_bias = nn.Parameter(torch.randn(sess_max_count, 1, 1) * 0.2)
        self.seq_bias = nn.Parameter(torch.randn(sess_len_max, 1) * 0.2)
        self.item_bias = nn.Parameter(torch.randn(dim) * 0.2)

    def forward(self, sessions):
        return sessions + self.item_bias + self.seq_bias + self.sess_bias


class SessionTransformer(nn.Module):
    """All sessions at once, [batch * sessions, clicks, dim]. A click is blind to itself."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.in_proj = nn.Linear(dim, 3 * dim, bias=False)
        self.feed_forward = nn.Sequential(nn.Linear(dim, 4 * dim, bias=False), nn.ReLU(), nn.Linear(4 * dim, dim, bias=False))

    def forward(self, x, lengths):
        n, clicks, dim = x.shape
        q, k, v = self.in_proj(x).view(n, clicks, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        there = torch.arange(clicks, device=x.device) < lengths.view(-1, 1, 1, 1)
        blind = torch.eye(clicks, dtype=torch.bool, device=x.device)
        scores = scores.masked_fill(~there | blind, PADDING)
        out = (scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(n, clicks, dim)
        out = out + x
        out = out + self.feed_forward(out)
        return out.mean(dim=1)


class LocalActivationUnit(nn.Module):
    def __init__(self, dim, hidden_units=(16, 8)):
        super().__init__()
        layers, width = [], 4 * dim
        for units in hidden_units:
            layers += [nn.Linear(width, units), nn.Sigmoid()]
            width = units
        self.mlp = nn.Sequential(*layers)
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, query, keys, lengths):
        query = query.unsqueeze(1).expand_as(keys)
        score = self.score(self.mlp(torch.cat([query, keys, query - keys, query * keys], dim=-1))).squeeze(-1)
        gone = torch.arange(keys.size(1), device=keys.device) >= lengths.unsqueeze(1)
        weights = score.masked_fill(gone, PADDING).softmax(dim=1)
        return torch.einsum("bs,bsd->bd", weights, keys)


class InterestEvolution(nn.Module):
    """A bidirectional LSTM whose directions are added. The hidden bias is frozen: it holds the forget gates' constant."""

    def __init__(self, dim):
        super().__init__()
        self.lstm = nn.LSTM(dim, dim, batch_first=True, bidirectional=True)
        with torch.no_grad():
            for name, p in self.lstm.named_parameters():
                if name.startswith("bias_hh"):
                    p.zero_()
                    p[dim:2 * dim] = 1.0
                    p.requires_grad_(False)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        out, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.size(1))
        forward, backward = out.chunk(2, dim=-1)
        return forward + backward


class DSIN(nn.Module):
    def __init__(self, dim=6, heads=4, sess_max_count=4, sess_len_max=6, dnn_hidden_units=(20, 10)):
        super().__init__()
        fields = {"cms_segid": 9, "pvalue_level": 4, "cate_id": 24, "brand": 33}
        self.embedding_dict = nn.ModuleDict({name: nn.Embedding(rows, dim) for name, rows in fields.items()})
        for table in self.embedding_dict.values():
            nn.init.normal_(table.weight, std=0.6)
        self.bias_encoding = BiasEncoding(sess_max_count, sess_len_max, 2 * dim)
        self.transformer = SessionTransformer(2 * dim, heads)
        self.interest_attention = LocalActivationUnit(2 * dim)
        self.evolution = InterestEvolution(2 * dim)
        self.lstm_attention = LocalActivationUnit(2 * dim)
        width, layers = 8 * dim + 1, []
        for units in dnn_hidden_units:
            layers += [nn.Linear(width, units), nn.ReLU()]
            width = units
        self.dnn = nn.Sequential(*layers, nn.Linear(width, 1))

    def items(self, ids):
        return torch.cat([self.embedding_dict["cate_id"](ids[..., 0]), self.embedding_dict["brand"](ids[..., 1])], dim=-1)

    def forward(self, user, target, sessions, clicks, sess_length, price):
        query = self.items(target)
        profile = torch.cat([self.embedding_dict["cms_segid"](user[:, 0]), self.embedding_dict["pvalue_level"](user[:, 1])], dim=-1)
        keys = self.bias_encoding(self.items(sessions))
        sess_fea = self.transformer(keys.flatten(0, 1), clicks.flatten()).view(keys.size(0), keys.size(1), -1)
        interest = self.interest_attention(query, sess_fea, sess_length)
        lstm_outputs = self.evolution(sess_fea, sess_length)
        evolved = self.lstm_attention(query, lstm_outputs, sess_length)
        logit = self.dnn(torch.cat([profile, query, interest, evolved, price], dim=-1)).squeeze(1)
        return logit, {"sess_fea": sess_fea, "interest": interest, "lstm_outputs": lstm_outputs, "evolved": evolved, "logit": logit}


def loss(model, user, target, sessions, clicks, sess_length, price, label):
    logit, outputs = model(user.long(), target.long(), sessions.long(), clicks.long(), sess_length.long(), price)
    log_loss = F.binary_cross_entropy_with_logits(logit, label)
    l2 = sum(p.square().sum() for name, p in model.named_parameters() if "embedding_dict" in name)
    return log_loss + 2e-4 * l2, {**outputs, "log_loss": log_loss}


class RMSprop(torch.optim.Optimizer):
    """As tf.train has it: accumulators begin at one, epsilon is under the root, the rate is in the momentum."""

    def __init__(self, params, lr, alpha=0.9, momentum=0.0, eps=1e-10):
        super().__init__(params, dict(lr=lr, alpha=alpha, momentum=momentum, eps=eps))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["square_avg"] = torch.ones_like(p)
                    state["momentum_buffer"] = torch.zeros_like(p)
                square_avg, buffer = state["square_avg"], state["momentum_buffer"]
                square_avg.mul_(group["alpha"]).addcmul_(p.grad, p.grad, value=1 - group["alpha"])
                update = p.grad / (square_avg + group["eps"]).sqrt()
                buffer.mul_(group["momentum"]).add_(update, alpha=group["lr"])
                p.sub_(buffer)


def optimizer(model):
    return RMSprop([p for p in model.parameters() if p.requires_grad], lr=0.005, alpha=0.9, momentum=0.5, eps=1e-6)


def step(model, optimizer, scheduler, **inputs):
    optimizer.zero_grad()
    value, outputs = loss(model, **inputs)
    value.backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.01)
    optimizer.step()
    return value, outputs
