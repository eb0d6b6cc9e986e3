"""Transformer-XL in torch, batch first."""
import torch
from torch import nn
import torch.nn.functional as F

CLIP = 1.4


def positional_embedding(positions, dim):
    inv_freq = 1 / 10000 ** (torch.arange(0, dim, 2, dtype=positions.dtype, device=positions.device) / dim)
    angles = torch.outer(positions, inv_freq)
    return torch.cat([angles.sin(), angles.cos()], -1)


def rel_shift(x):
    """[batch, head, query, distance] to [batch, head, query, key]."""
    b, n, q, k = x.shape
    x = F.pad(x, (1, 0)).view(b, n, k + 1, q)
    return x[:, :, 1:].reshape(b, n, q, k)


class RelAttention(nn.Module):
    def __init__(self, d_model, n_head, d_head):
        super().__init__()
        self.n_head, self.d_head = n_head, d_head
        self.qkv_net = nn.Linear(d_model, 3 * n_head * d_head, bias=False)
        self.r_net = nn.Linear(d_model, n_head * d_head, bias=False)
        self.o_net = nn.Linear(n_head * d_head, d_model, bias=False)
        self.layer_norm = nn.LayerNorm(d_model, eps=1e-12)

    def split(self, x):
        return x.view(*x.shape[:-1], self.n_head, self.d_head).transpose(-2, -3)

    def forward(self, x, mems, r, r_w_bias, r_r_bias, mask):
        q, k, v = self.qkv_net(torch.cat([mems, x], 1)).chunk(3, -1)
        q, k, v, r = self.split(q[:, -x.size(1):]), self.split(k), self.split(v), self.split(self.r_net(r))
        ac = (q + r_w_bias[:, None]) @ k.transpose(-1, -2)
        bd = (q + r_r_bias[:, None]) @ r.transpose(-1, -2)
        scores = (ac + rel_shift(bd)) * self.d_head ** -0.5
        probs = scores.masked_fill(mask, float("-inf")).softmax(-1)
        out = self.o_net((probs @ v).transpose(1, 2).flatten(2))
        return self.layer_norm(x + out)


class FeedForward(nn.Module):
    def __init__(self, d_model, d_inner):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d_model, d_inner), nn.ReLU(), nn.Linear(d_inner, d_model))
        self.layer_norm = nn.LayerNorm(d_model, eps=1e-12)

    def forward(self, x):
        return self.layer_norm(x + self.net(x))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, n_head, d_head, d_inner):
        super().__init__()
        self.attn = RelAttention(d_model, n_head, d_head)
        self.ff = FeedForward(d_model, d_inner)

    def forward(self, x, *args):
        return self.ff(self.attn(x, *args))


class AdaptiveEmbedding(nn.Module):
    def __init__(self, ends, d_embed, d_model, div_val):
        super().__init__()
        self.ends, self.d_model = ends, d_model
        dims = [d_embed // div_val ** i for i in range(len(ends) - 1)]
        self.emb_layers = nn.ModuleList(nn.Embedding(r - l, d) for l, r, d in zip(ends, ends[1:], dims))
        self.emb_projs = nn.ModuleList(nn.Linear(d, d_model, bias=False) for d in dims)

    def forward(self, tokens):
        flat = tokens.reshape(-1)
        out = self.emb_projs[0].weight.new_zeros(flat.numel(), self.d_model)
        for i, (l, r) in enumerate(zip(self.ends, self.ends[1:])):
            where = ((flat >= l) & (flat < r)).nonzero().squeeze(1)
            out = out.index_add(0, where, self.emb_projs[i](self.emb_layers[i](flat[where] - l)))
        return out.view(*tokens.shape, -1) * self.d_model ** 0.5


class AdaptiveLogSoftmax(nn.Module):
    """Tables are the embedding's; so are the projections of the tails."""

    def __init__(self, embedding, d_embed):
        super().__init__()
        self.ends = embedding.ends
        self.projs = nn.ModuleList([nn.Linear(d_embed, embedding.d_model, bias=False), *embedding.emb_projs[1:]])
        self.embedding = embedding
        clusters = len(self.ends) - 2
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(r - l)) for l, r in zip(self.ends, self.ends[1:]))
        self.cluster = nn.Linear(d_embed, clusters)

    def forward(self, hidden, targets):
        def logits(x, i):
            return F.linear(x @ self.projs[i].weight, self.embedding.emb_layers[i].weight, self.biases[i])

        flat, target = hidden.flatten(0, 1), targets.flatten()
        clusters = self.cluster(flat @ self.projs[0].weight)
        head = torch.cat([logits(flat, 0), clusters], -1).log_softmax(-1)
        nll = flat.new_zeros(target.shape)
        for i, (l, r) in enumerate(zip(self.ends, self.ends[1:])):
            where = ((target >= l) & (target < r)).nonzero().squeeze(1)
            index = (target[where] - l)[:, None]
            if i == 0:
                logprob = head[where].gather(1, index)
            else:
                tail = logits(flat[where], i).log_softmax(-1)
                logprob = head[where, self.ends[1] + i - 1, None] + tail.gather(1, index)
            nll = nll.index_add(0, where, -logprob.squeeze(1))
        return nll.view_as(targets)


class Model(nn.Module):
    def __init__(self, ends=(0, 15, 28, 47), d_model=16, d_embed=12, n_head=2, d_head=7, d_inner=23, n_layer=2, div_val=2):
        super().__init__()
        self.d_model = d_model
        self.word_emb = AdaptiveEmbedding(ends, d_embed, d_model, div_val)
        self.r_w_bias = nn.Parameter(torch.randn(n_head, d_head) * 0.1)
        self.r_r_bias = nn.Parameter(torch.randn(n_head, d_head) * 0.1)
        self.layers = nn.ModuleList(DecoderLayer(d_model, n_head, d_head, d_inner) for _ in range(n_layer))
        self.crit = AdaptiveLogSoftmax(self.word_emb, d_embed)

    def forward(self, tokens, targets, mems):
        qlen, mlen = tokens.size(1), mems.size(2)
        mask = torch.ones(qlen, qlen + mlen, dtype=torch.bool, device=mems.device).triu(1 + mlen)
        positions = torch.arange(qlen + mlen - 1, -1, -1, dtype=mems.dtype, device=mems.device)
        r = positional_embedding(positions, self.d_model)
        hidden, new_mems = self.word_emb(tokens.long()), []
        for i, layer in enumerate(self.layers):
            new_mems.append(torch.cat([mems[:, i], hidden], 1)[:, -mlen:].detach())
            hidden = layer(hidden, mems[:, i], r, self.r_w_bias, self.r_r_bias, mask)
        return self.crit(hidden, targets.long()), hidden, torch.stack(new_mems, 1)


def loss(model, tokens, targets, mems, weights):
    nll, hidden, new_mems = model(tokens, targets, mems)
    return (nll * weights).sum() / weights.sum(), {"hidden": hidden, "nll": nll, "new_mems": new_mems}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=25)


def clip_by_global_norm(parameters, limit):
    """tf.clip_by_global_norm; torch's own adds 1e-6 to the norm."""
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.stack([g.norm() for g in grads]).norm()
    for g in grads:
        g.mul_(limit / norm.clamp(min=limit))


def step(model, optimizer, scheduler, **inputs):
    optimizer.zero_grad()
    value, outputs = loss(model, **inputs)
    value.backward()
    clip_by_global_norm(list(model.parameters()), CLIP)
    optimizer.step()
    scheduler.step()
    return value, outputs
