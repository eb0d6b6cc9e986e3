import math

import torch
from torch import nn
from torch.nn import functional as F


class CoupledLSTM(nn.Module):
    """One direction of an LSTM whose forget gate is one less its input gate, and whose first state is learned."""

    def __init__(self, input_size, hidden_size, reverse=False):
        super().__init__()
        self.reverse = reverse
        self.projection = nn.Linear(input_size + hidden_size, 3 * hidden_size)
        self.c0 = nn.Parameter(torch.empty(1, hidden_size))
        self.h0 = nn.Parameter(torch.empty(1, hidden_size))
        nn.init.xavier_uniform_(self.c0)
        nn.init.xavier_uniform_(self.h0)
        for block in self.projection.weight.data.chunk(3):
            nn.init.orthogonal_(block)

    def forward(self, x, mask):
        h, c = self.h0.expand(len(x), -1), self.c0.expand(len(x), -1)
        outputs = [None] * x.size(1)
        steps = range(x.size(1))
        for t in reversed(steps) if self.reverse else steps:
            i, j, o = self.projection(torch.cat([x[:, t], h], dim=1)).chunk(3, dim=1)
            i = i.sigmoid()
            new_c = (1 - i) * c + i * j.tanh()
            new_h = new_c.tanh() * o.sigmoid()
            inside = mask[:, t, None] > 0
            c, h = torch.where(inside, new_c, c), torch.where(inside, new_h, h)
            outputs[t] = torch.where(inside, new_h, torch.zeros_like(new_h))
        return torch.stack(outputs, dim=1)


class BiLSTM(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.directions = nn.ModuleList([CoupledLSTM(input_size, hidden_size), CoupledLSTM(input_size, hidden_size, reverse=True)])

    def forward(self, x, mask):
        return torch.cat([direction(x, mask) for direction in self.directions], dim=-1)


class Score(nn.Sequential):
    def __init__(self, input_size, hidden_size):
        super().__init__(nn.Linear(input_size, hidden_size), nn.ReLU(inplace=True), nn.Linear(hidden_size, 1))

    def forward(self, x):
        return super().forward(x).squeeze(-1)


class SpanRepresentation(nn.Module):
    def __init__(self, state_size, feature_size, max_width):
        super().__init__()
        self.max_width = max_width
        self.width = nn.Embedding(max_width, feature_size)
        self.attention = nn.Linear(state_size, 1)

    def forward(self, embeds, states, starts, ends):
        rows = torch.arange(len(starts)).unsqueeze(1)
        widths = ends - starts
        window = torch.arange(self.max_width)
        indices = (starts.unsqueeze(-1) + window).clamp(max=embeds.size(1) - 1)
        outside = window > widths.unsqueeze(-1)
        logits = self.attention(states).squeeze(-1)[rows.unsqueeze(-1), indices]
        weights = logits.masked_fill(outside, float("-inf")).softmax(dim=-1)
        heads = torch.einsum("bsw,bswd->bsd", weights, embeds[rows.unsqueeze(-1), indices])
        return torch.cat([states[rows, starts], states[rows, ends], self.width(widths), heads], dim=-1)


class Distance(nn.Module):
    """Embeds distances in the bins 0, 1, 2, 3, 4, 5-7, 8-15, 16-31, 32-63, 64+."""

    def __init__(self, feature_size, bins=10):
        super().__init__()
        self.embeds = nn.Embedding(bins, feature_size)

    def bucket(self, distances):
        log = torch.log2(distances.clamp(min=1).to(self.embeds.weight.dtype)).floor().long() + 3
        return torch.where(distances <= 4, distances, log).clamp(0, self.embeds.num_embeddings - 1)

    def forward(self, distances):
        return self.embeds(self.bucket(distances))


class PairwiseScore(nn.Module):
    def __init__(self, span_size, feature_size, hidden_size):
        super().__init__()
        self.bilinear = nn.Linear(span_size, span_size)
        self.distance = Distance(feature_size)
        self.score = Score(3 * span_size + feature_size, hidden_size)

    def forward(self, spans, mentions):
        b, k, d = spans.shape
        order = torch.arange(k)
        phi = self.distance((order[:, None] - order[None, :]).clamp(min=1))
        i, j = spans[:, :, None].expand(b, k, k, d), spans[:, None].expand(b, k, k, d)
        slow = self.score(torch.cat([i, j, i * j, phi.expand(b, k, k, -1)], dim=-1))
        fast = torch.einsum("bid,bjd->bij", self.bilinear(spans), spans)
        return mentions[:, :, None] + mentions[:, None, :] + fast + slow


class CorefModel(nn.Module):
    def __init__(self, vocab=50, emb=14, hidden=12, feature=6, ffnn=18, max_width=4):
        super().__init__()
        span_size = 4 * hidden + feature + emb
        self.embed = nn.Embedding(vocab, emb)
        self.encoder = BiLSTM(emb, hidden)
        self.spans = SpanRepresentation(2 * hidden, feature, max_width)
        self.mention = Score(span_size, ffnn)
        self.pairs = PairwiseScore(span_size, feature, ffnn)

    def forward(self, words, mask, starts, ends):
        embeds = self.embed(words)
        states = self.encoder(embeds, mask)
        spans = self.spans(embeds, states, starts, ends)
        mentions = self.mention(spans)
        return states, spans, mentions, self.pairs(spans, mentions)


def marginal_loss(scores, clusters):
    k = scores.size(-1)
    earlier = torch.ones(k, k, dtype=torch.bool).tril(-1)
    gold = (clusters[:, :, None] == clusters[:, None, :]) & (clusters > 0)[:, :, None] & earlier
    gold = F.pad(gold, (1, 0))
    gold[:, :, 0] = ~gold.any(dim=-1)
    scores = F.pad(scores.masked_fill(~earlier, float("-inf")), (1, 0))
    right = scores.masked_fill(~gold, float("-inf"))
    return (scores.logsumexp(-1) - right.logsumexp(-1)).sum(dim=1).mean()


def loss(model, words, text_mask, starts, ends, cluster_ids):
    states, spans, mentions, scores = model(words.long(), text_mask, starts.long(), ends.long())
    value = marginal_loss(scores, cluster_ids)
    return value, {"context": states, "spans": spans, "mention_scores": mentions, "antecedent_scores": scores.tril(-1)}


class Adam(torch.optim.Optimizer):
    """Adam with the epsilon beside the uncorrected root."""

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
                state["exp_avg"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                rate = group["lr"] * math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
                p.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt().add_(group["eps"]), value=-rate)


def optimizer(model):
    return Adam(model.parameters(), lr=0.003)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)


def step(model, optimizer, scheduler, words, text_mask, starts, ends, cluster_ids):
    optimizer.zero_grad()
    value, outputs = loss(model, words, text_mask, starts, ends, cluster_ids)
    value.backward()
    grads = [p.grad for p in model.parameters()]
    norm = torch.sqrt(sum(g.square().sum() for g in grads))
    if norm > 5.0:
        for g in grads:
            g.mul_(5.0 / norm)
    optimizer.step()
    scheduler.step()
    return value, outputs
