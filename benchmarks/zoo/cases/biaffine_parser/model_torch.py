"""Biaffine dependency parser."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class MLP(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.activation = nn.LeakyReLU(negative_slope=0.1)

    def forward(self, x):
        return self.activation(self.linear(x))


def with_ones(x):
    return torch.cat([x, torch.ones_like(x[..., :1])], dim=-1)


class ArcBiaffine(nn.Module):
    """Scores [batch, dependent, head]; the dependent's side has a bias."""

    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size + 1, size))

    def forward(self, dep, head):
        return with_ones(dep) @ self.weight @ head.transpose(1, 2)


class RelBiaffine(nn.Module):
    """Scores [batch, dependent, head, relation]; both sides have a bias."""

    def __init__(self, size, num_relations):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size + 1, num_relations, size + 1))

    def forward(self, dep, head):
        return torch.einsum("bxi,iro,byo->bxyr", with_ones(dep), self.weight, with_ones(head))


class Encoder(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.lstm = nn.LSTM(input_size, hidden_size, batch_first=True, bidirectional=True)
        for name, parameter in self.lstm.named_parameters():
            if "bias" in name:
                nn.init.zeros_(parameter)
            if "bias_hh" in name:  # one bias is enough
                parameter.requires_grad_(False)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        output, _ = self.lstm(packed)
        return pad_packed_sequence(output, batch_first=True, total_length=x.size(1))[0]


class Model(nn.Module):
    def __init__(self, words=70, tags=12, relations=6, word_dim=14, tag_dim=8, hidden=16, arc_size=14, rel_size=10):
        super().__init__()
        self.word_embedding = nn.Embedding(words, word_dim)
        self.tag_embedding = nn.Embedding(tags, tag_dim)
        self.encoder = Encoder(word_dim + tag_dim, hidden)
        self.mlp_arc_dep = MLP(2 * hidden, arc_size)
        self.mlp_arc_head = MLP(2 * hidden, arc_size)
        self.mlp_rel_dep = MLP(2 * hidden, rel_size)
        self.mlp_rel_head = MLP(2 * hidden, rel_size)
        self.arc_biaffine = ArcBiaffine(arc_size)
        self.rel_biaffine = RelBiaffine(rel_size, relations)

    def forward(self, words, tags, mask):
        embedded = torch.cat([self.word_embedding(words), self.tag_embedding(tags)], dim=-1)
        recurrent = self.encoder(embedded, mask.sum(dim=1).long())
        arc_dep = self.mlp_arc_dep(recurrent)
        arc_scores = self.arc_biaffine(arc_dep, self.mlp_arc_head(recurrent))
        arc_scores = arc_scores.masked_fill(mask.unsqueeze(1) == 0, -1e9)
        rel_scores = self.rel_biaffine(self.mlp_rel_dep(recurrent), self.mlp_rel_head(recurrent))
        return recurrent, arc_dep, arc_scores, rel_scores


def loss(model, words, tags, mask, heads, relations):
    heads, relations = heads.long(), relations.long()
    recurrent, arc_dep, arc_scores, rel_scores = model(words.long(), tags.long(), mask)
    index = heads[:, :, None, None].expand(-1, -1, 1, rel_scores.size(-1))
    rel_scores = rel_scores.gather(2, index).squeeze(2)
    keep = mask.bool()
    keep[:, 0] = False  # the root has no head
    total = F.cross_entropy(arc_scores[keep], heads[keep]) + F.cross_entropy(rel_scores[keep], relations[keep])
    return total, {"top_recur": recurrent, "arc_dep": arc_dep, "rel_logits": rel_scores}


class Adam(torch.optim.Optimizer):
    """Adam with epsilon beside the root of the uncorrected second moment, as in the paper's short form."""

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
                state["exp_avg"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                lr = group["lr"] * (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
                p.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt().add_(group["eps"]), value=-lr)


def optimizer(model):
    return Adam([p for p in model.parameters() if p.requires_grad], lr=0.002, betas=(0.9, 0.9), eps=1e-8)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.75 ** (1 / 10))
