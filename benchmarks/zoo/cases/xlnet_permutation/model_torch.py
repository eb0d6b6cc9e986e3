import torch
from torch import nn
from torch.nn import functional as F

CLAMP_LEN = 7


class FeedForward(nn.Module):
    def __init__(self, d_model, d_inner):
        super().__init__()
        self.layer_1 = nn.Linear(d_model, d_inner)
        self.layer_2 = nn.Linear(d_inner, d_model)
        self.norm = nn.LayerNorm(d_model, eps=1e-12)

    def forward(self, inp):
        return self.norm(self.layer_2(F.gelu(self.layer_1(inp), approximate="tanh")) + inp)


class RelativeAttention(nn.Module):
    """Attention by content, relative position and relative segment, for the content stream h and the query stream g."""

    def __init__(self, d_model, n_head, d_head):
        super().__init__()
        self.n_head, self.d_head = n_head, d_head
        self.scale = d_head ** -0.5
        self.q = nn.Linear(d_model, n_head * d_head, bias=False)
        self.k = nn.Linear(d_model, n_head * d_head, bias=False)
        self.v = nn.Linear(d_model, n_head * d_head, bias=False)
        self.r = nn.Linear(d_model, n_head * d_head, bias=False)
        self.o = nn.Linear(n_head * d_head, d_model, bias=False)
        self.layer_norm = nn.LayerNorm(d_model, eps=1e-12)

    def heads(self, x):
        return x.view(x.size(0), x.size(1), self.n_head, self.d_head)

    @staticmethod
    def rel_shift(x, klen):
        i, j, b, n = x.shape
        x = x.reshape(j, i, b, n)[1:]
        return x.reshape(i, j - 1, b, n)[:, :klen]

    def core(self, q, k, v, r, relative, attn_mask):
        seg_embed, seg_mat, r_w_bias, r_r_bias, r_s_bias = relative
        ac = torch.einsum("ibnd,jbnd->ijbn", q + r_w_bias, k)
        bd = torch.einsum("ibnd,jnd->ijbn", q + r_r_bias, r)
        bd = self.rel_shift(bd, klen=ac.size(1))
        ef = torch.einsum("ibnd,snd->ibns", q + r_s_bias, seg_embed)
        ef = torch.einsum("ijbs,ibns->ijbn", seg_mat, ef)
        score = (ac + bd + ef) * self.scale
        score = score - 1e30 * attn_mask
        return torch.einsum("ijbn,jbnd->ibnd", score.softmax(dim=1), v)

    def post(self, x, attn_vec):
        return self.layer_norm(self.o(attn_vec.flatten(2)) + x)

    def forward(self, h, g, pos_emb, relative, mask_h, mask_g, target_mapping):
        k, v = self.heads(self.k(h)), self.heads(self.v(h))
        r = self.r(pos_emb).view(-1, self.n_head, self.d_head)
        vec_h = self.core(self.heads(self.q(h)), k, v, r, relative, mask_h)
        out_h = self.post(h, vec_h)
        q_g = torch.einsum("mbnd,mlb->lbnd", self.heads(self.q(g)), target_mapping)
        vec_g = self.core(q_g, k, v, r, relative, mask_g)
        out_g = self.post(g, torch.einsum("lbnd,mlb->mbnd", vec_g, target_mapping))
        return out_h, out_g


class Layer(nn.Module):
    def __init__(self, d_model, n_head, d_head, d_inner):
        super().__init__()
        self.rel_attn = RelativeAttention(d_model, n_head, d_head)
        self.ff = FeedForward(d_model, d_inner)

    def forward(self, h, g, *args):
        h, g = self.rel_attn(h, g, *args)
        return self.ff(h), self.ff(g)


class Model(nn.Module):
    def __init__(self, n_token=40, n_layer=2, d_model=20, n_head=2, d_head=8, d_inner=36):
        super().__init__()
        self.d_model = d_model
        self.r_w_bias = nn.Parameter(torch.empty(n_layer, n_head, d_head))
        self.r_r_bias = nn.Parameter(torch.empty(n_layer, n_head, d_head))
        self.r_s_bias = nn.Parameter(torch.empty(n_layer, n_head, d_head))
        self.seg_embed = nn.Parameter(torch.empty(n_layer, 2, n_head, d_head))
        self.mask_emb = nn.Parameter(torch.empty(1, 1, d_model))
        self.word_embedding = nn.Embedding(n_token, d_model)
        self.layer = nn.ModuleList([Layer(d_model, n_head, d_head, d_inner) for _ in range(n_layer)])
        self.lm_head = nn.Linear(d_model, n_token)
        self.lm_head.weight = self.word_embedding.weight
        for name, p in self.named_parameters():
            if "norm" not in name:
                nn.init.normal_(p, std=0.15)

    def positions(self, qlen, klen, like):
        inv_freq = 1 / (10000 ** (torch.arange(0, self.d_model, 2.0, dtype=like.dtype, device=like.device) / self.d_model))
        pos_seq = torch.arange(klen, -qlen, -1.0, dtype=like.dtype, device=like.device).clamp(-CLAMP_LEN, CLAMP_LEN)
        angles = torch.einsum("i,d->id", pos_seq, inv_freq)
        return torch.cat([angles.sin(), angles.cos()], dim=-1)

    def forward(self, inp_k, seg_id, input_mask, perm_mask, target_mapping):
        qlen, bsz = inp_k.shape
        data_mask = input_mask[None] + perm_mask
        attn_mask = (data_mask > 0).to(input_mask.dtype).unsqueeze(-1)
        eye = torch.eye(qlen, dtype=input_mask.dtype, device=input_mask.device)[:, :, None, None]
        non_tgt_mask = (attn_mask - eye > 0).to(input_mask.dtype)

        h = self.word_embedding(inp_k)
        g = self.mask_emb.expand(target_mapping.size(0), bsz, -1)
        other = (seg_id[:, None] != seg_id[None, :]).long()
        seg_mat = F.one_hot(other, 2).to(input_mask.dtype)
        pos_emb = self.positions(qlen, qlen, input_mask)
        contents, queries = [], []
        for i, layer in enumerate(self.layer):
            relative = (self.seg_embed[i], seg_mat, self.r_w_bias[i], self.r_r_bias[i], self.r_s_bias[i])
            h, g = layer(h, g, pos_emb, relative, non_tgt_mask, attn_mask, target_mapping)
            contents.append(h)
            queries.append(g)
        return contents, queries, self.lm_head(g)


def loss(model, inp_k, seg_id, input_mask, perm_mask, target_mapping, target, tgt_mask):
    contents, queries, logits = model(inp_k.t().long(), seg_id.t(), input_mask.t(), perm_mask.permute(1, 2, 0),
                                      target_mapping.permute(1, 2, 0))
    lm_loss = F.cross_entropy(logits.flatten(0, 1), target.t().reshape(-1).long(), reduction="none")
    weights = tgt_mask.t().reshape(-1)
    total = (lm_loss * weights).sum() / weights.sum()
    ends = {"content_%d" % i: h for i, h in enumerate(contents)}
    ends.update({"query_%d" % i: g for i, g in enumerate(queries)})
    ends["logits"] = logits
    return total, ends
