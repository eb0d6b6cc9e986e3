import torch
import torch.nn as nn
import torch.nn.functional as F


class KeyAddressing(nn.Module):
    """One hop: the item addresses the heads through their relations and reads the tails."""

    def forward(self, item, h, r, t):
        Rh = torch.einsum("bmij,bmj->bmi", r, h)
        probs = torch.einsum("bmi,bi->bm", Rh, item)
        probs_normalized = F.softmax(probs, dim=1)
        return (t * probs_normalized.unsqueeze(-1)).sum(dim=1)


class RippleNet(nn.Module):
    def __init__(self, n_entity=60, n_relation=5, dim=8, n_hop=2, kge_weight=0.05, l2_weight=1e-3):
        super().__init__()
        self.dim, self.n_hop = dim, n_hop
        self.kge_weight, self.l2_weight = kge_weight, l2_weight
        self.entity_emb = nn.Embedding(n_entity, dim)
        self.relation_emb = nn.Embedding(n_relation, dim * dim)
        self.transform_matrix = nn.Linear(dim, dim, bias=False)
        self.hops = nn.ModuleList(KeyAddressing() for _ in range(n_hop))
        for weight in self.parameters():
            nn.init.xavier_uniform_(weight)

    def look_up(self, memories_h, memories_r, memories_t):
        h = [self.entity_emb(memories_h[:, i]) for i in range(self.n_hop)]
        r = [self.relation_emb(memories_r[:, i]).unflatten(-1, (self.dim, self.dim)) for i in range(self.n_hop)]
        t = [self.entity_emb(memories_t[:, i]) for i in range(self.n_hop)]
        return h, r, t

    def forward(self, items, memories_h, memories_r, memories_t):
        item = self.entity_emb(items)
        triples = self.look_up(memories_h, memories_r, memories_t)
        o_list = []
        for hop, h, r, t in zip(self.hops, *triples):
            o = hop(item, h, r, t)
            item = self.transform_matrix(item + o)
            o_list.append(o)
        scores = (item * sum(o_list)).sum(dim=1)
        return scores, o_list, self.kge_loss(*triples), self.l2_loss(*triples)

    def kge_loss(self, h_list, r_list, t_list):
        value = 0
        for h, r, t in zip(h_list, r_list, t_list):
            hRt = (h.unsqueeze(2) @ r @ t.unsqueeze(3)).squeeze(-1).squeeze(-1)
            value = value + torch.sigmoid(hRt).mean()
        return -self.kge_weight * value

    def l2_loss(self, h_list, r_list, t_list):
        value = self.n_hop * self.transform_matrix.weight.pow(2).sum() / 2
        for h, r, t in zip(h_list, r_list, t_list):
            value = value + (h * h).sum() + (t * t).sum() + (r * r).sum()
        return self.l2_weight * value


def loss(model, items, labels, memories_h, memories_r, memories_t):
    scores, o_list, kge_loss, l2_loss = model(items.long(), memories_h.long(), memories_r.long(), memories_t.long())
    base_loss = F.binary_cross_entropy_with_logits(scores, labels)
    return base_loss + kge_loss + l2_loss, {"o_1": o_list[0], "o_2": o_list[1], "scores": torch.sigmoid(scores), "base_loss": base_loss,
                                            "kge_loss": kge_loss, "l2_loss": l2_loss}
