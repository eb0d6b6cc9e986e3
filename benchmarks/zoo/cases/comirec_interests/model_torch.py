import math

import torch
from torch import nn
from torch.nn import functional as F

N_ITEMS = 121


def squash(x):
    n = x.square().sum(-1, keepdim=True)
    return x * n / (1 + n) * torch.rsqrt(n + 1e-9)


class DynamicRouting(nn.Module):
    """Clicks vote for interests; all rounds but the last see votes without gradients."""

    def __init__(self, length, interests, rounds=3):
        super().__init__()
        self.length, self.interests, self.rounds = length, interests, rounds

    def forward(self, votes, mask):
        # votes [batch, interests, clicks, dim], mask [batch, clicks]
        fixed = votes.detach()
        logits = fixed.new_zeros(fixed.shape[:3])
        keep = mask.bool().unsqueeze(1)
        for _ in range(self.rounds - 1):
            weights = logits.softmax(dim=1).masked_fill(~keep, 0.0)
            capsules = squash(torch.einsum("bkt,bktd->bkd", weights, fixed))
            logits = logits + torch.einsum("bktd,bkd->bkt", fixed, capsules)
        weights = logits.softmax(dim=1).masked_fill(~keep, 0.0)
        return squash(torch.einsum("bkt,bktd->bkd", weights, votes))


class InterestExtractor(nn.Module):
    def __init__(self, dim, length, interests):
        super().__init__()
        self.interests = interests
        self.bilinear = nn.Parameter(torch.randn(length, interests * dim, dim))
        self.routing = DynamicRouting(length, interests)
        self.proj = nn.Sequential(nn.Linear(dim, dim), nn.ReLU())

    def forward(self, clicks, mask):
        votes = torch.einsum("toi,bti->bto", self.bilinear, clicks)
        votes = votes.unflatten(-1, (self.interests, -1)).transpose(1, 2)
        return self.proj(self.routing(votes, mask))


class Model(nn.Module):
    def __init__(self, dim=10, length=8, interests=3):
        super().__init__()
        self.items = nn.Embedding(N_ITEMS, dim)
        self.extractor = InterestExtractor(dim, length, interests)
        nn.init.normal_(self.items.weight, std=0.3)

    def forward(self, history, mask, target, sampled):
        clicks = self.items(history) * mask.unsqueeze(-1)
        interests = self.extractor(clicks, mask)
        wanted = self.items(target)
        affinity = torch.einsum("bkd,bd->bk", interests, wanted)
        best = affinity.argmax(1)
        readout = interests[torch.arange(len(best), device=best.device), best]
        true_logits = (readout * wanted).sum(1)
        sampled_logits = F.linear(readout, self.items(sampled))
        scores = torch.einsum("bkd,nd->bkn", interests, self.items.weight).amax(1)
        return interests, readout, scores, true_logits, sampled_logits


def log_expected(ids, tries, dtype):
    ids = ids.to(dtype)
    p = (torch.log(ids + 2) - torch.log(ids + 1)) / math.log(N_ITEMS + 1)
    return torch.log(-torch.expm1(tries * torch.log1p(-p)))


def loss(model, item_his, mask, item, sampled):
    target, drawn = item.long(), sampled.long().flatten()
    interests, readout, scores, true_logits, sampled_logits = model(item_his.long(), mask, target, drawn)
    dtype, tries = mask.dtype, drawn.numel()
    true_logits = true_logits - log_expected(target, tries, dtype)
    sampled_logits = sampled_logits - log_expected(drawn, tries, dtype)
    sampled_logits = sampled_logits.masked_fill(drawn == target.unsqueeze(1), float("-inf"))
    logits = torch.cat([true_logits.unsqueeze(1), sampled_logits], dim=1)
    value = F.cross_entropy(logits, torch.zeros_like(target))
    hit = (scores.topk(10, dim=1).indices == target.unsqueeze(1)).any(1)
    return value, {"user_eb": interests, "readout": readout, "scores": scores, "recall": hit.to(dtype).mean()}
