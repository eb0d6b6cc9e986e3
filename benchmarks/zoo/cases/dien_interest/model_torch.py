"""Deep interest evolution network: interest extraction by a GRU, evolution by a GRU with attentional update gate (AUGRU)."""

import torch
from torch import nn


class GRUCell(nn.Module):
    """The original formulation, in which the state is reset before it is multiplied; nn.GRUCell resets the product."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.gates = nn.Linear(input_size + hidden_size, 2 * hidden_size)
        self.candidate = nn.Linear(input_size + hidden_size, hidden_size)
        nn.init.ones_(self.gates.bias)
        nn.init.zeros_(self.candidate.bias)

    def forward(self, x, h):
        r, u = torch.sigmoid(self.gates(torch.cat([x, h], dim=-1))).chunk(2, dim=-1)
        c = torch.tanh(self.candidate(torch.cat([x, r * h], dim=-1)))
        return u * h + (1 - u) * c


class AUGRUCell(nn.Module):
    """The update gate is damped by the attention that a step gets."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.gates = nn.Linear(input_size + hidden_size, 2 * hidden_size)
        self.candidate = nn.Linear(input_size + hidden_size, hidden_size)
        nn.init.ones_(self.gates.bias)
        nn.init.zeros_(self.candidate.bias)

    def forward(self, x, h, attention):
        reset, update = torch.sigmoid(self.gates(torch.cat([x, h], dim=-1))).chunk(2, dim=-1)
        candidate = torch.tanh(self.candidate(torch.cat([x, reset * h], dim=-1)))
        update = (1 - attention) * update
        return update * h + (1 - update) * candidate


class InterestExtractor(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.cell = GRUCell(input_size, hidden_size)

    def forward(self, x, mask):
        h = x.new_zeros(x.size(0), self.hidden_size)
        outputs = []
        for t in range(x.size(1)):
            h = self.cell(x[:, t], h)
            outputs.append(h * mask[:, t, None])
        return torch.stack(outputs, dim=1)


class InterestEvolution(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.cell = AUGRUCell(input_size, hidden_size)

    def forward(self, x, attention, lengths):
        h = x.new_zeros(x.size(0), self.hidden_size)
        for t in range(x.size(1)):
            new = self.cell(x[:, t], h, attention[:, t, None])
            h = torch.where((t < lengths)[:, None], new, h)
        return h


class Attention(nn.Module):
    def __init__(self, query_size, fact_size, hidden=(18, 10)):
        super().__init__()
        self.query = nn.Linear(query_size, fact_size)
        self.prelu = nn.PReLU(fact_size, init=0.1)
        self.fc1 = nn.Linear(4 * fact_size, hidden[0])
        self.fc2 = nn.Linear(hidden[0], hidden[1])
        self.fc3 = nn.Linear(hidden[1], 1)

    def forward(self, query, facts, mask):
        q = self.prelu(self.query(query)).unsqueeze(1).expand_as(facts)
        x = torch.cat([q, facts, q - facts, q * facts], dim=-1)
        x = torch.sigmoid(self.fc1(x))
        x = torch.sigmoid(self.fc2(x))
        scores = self.fc3(x).squeeze(-1)
        scores = scores.masked_fill(mask == 0, float("-inf"))
        return scores.softmax(dim=-1)


class AuxiliaryNet(nn.Module):
    def __init__(self, input_size):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(input_size, 16), nn.Sigmoid(), nn.Linear(16, 11), nn.Sigmoid(), nn.Linear(11, 2), nn.Softmax(dim=-1)
        )

    def forward(self, states, items):
        return self.net(torch.cat([states, items], dim=-1))[..., 0] + 1e-8


class Dice(nn.Module):
    def __init__(self, features, eps=1e-9):
        super().__init__()
        self.eps = eps
        self.alpha = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        var, mean = torch.var_mean(x, dim=0, unbiased=False)
        p = torch.sigmoid((x - mean) / ((var + self.eps).sqrt() + self.eps))
        return p * x + self.alpha * (1 - p) * x


class Model(nn.Module):
    def __init__(self, n_uid=20, n_mid=50, n_cat=9, uid_dim=6, mid_dim=7, cat_dim=5, hidden_size=14):
        super().__init__()
        item_dim = mid_dim + cat_dim
        self.uid_embedding = nn.Embedding(n_uid, uid_dim)
        self.mid_embedding = nn.Embedding(n_mid, mid_dim)
        self.cat_embedding = nn.Embedding(n_cat, cat_dim)
        self.extractor = InterestExtractor(item_dim, hidden_size)
        self.auxiliary = AuxiliaryNet(hidden_size + item_dim)
        self.attention = Attention(item_dim, hidden_size)
        self.evolution = InterestEvolution(hidden_size, hidden_size)
        self.fc = nn.Sequential(
            nn.Linear(uid_dim + 3 * item_dim + hidden_size, 24), Dice(24), nn.Linear(24, 15), Dice(15), nn.Linear(15, 2)
        )

    def embed_items(self, mid, cat):
        return torch.cat([self.mid_embedding(mid.long()), self.cat_embedding(cat.long())], dim=-1)

    def forward(self, uid, mid, cat, mid_his, cat_his, noclk_mid, noclk_cat, mask, seq_len):
        item = self.embed_items(mid, cat)
        history = self.embed_items(mid_his, cat_his)
        not_clicked = self.embed_items(noclk_mid, noclk_cat)
        interests = self.extractor(history, mask)
        clicked_prob = self.auxiliary(interests[:, :-1], history[:, 1:])
        not_clicked_prob = self.auxiliary(interests[:, :-1], not_clicked[:, 1:])
        attention = self.attention(item, interests, mask)
        final = self.evolution(interests, attention, seq_len)
        total = history.sum(dim=1)
        x = torch.cat([self.uid_embedding(uid.long()), item, total, item * total, final], dim=-1)
        probs = self.fc(x).softmax(dim=-1) + 1e-8
        return interests, attention, final, probs, clicked_prob, not_clicked_prob


def auxiliary_loss(clicked_prob, not_clicked_prob, mask):
    losses = -clicked_prob.log() - (1 - not_clicked_prob).log()
    return (losses * mask).mean()


def loss(model, mask, target, **features):
    interests, attention, final, probs, clicked_prob, not_clicked_prob = model(mask=mask, **features)
    # the mean is over both classes of the one-hot target
    ctr_loss = -(probs.log() * target).mean()
    aux_loss = auxiliary_loss(clicked_prob, not_clicked_prob, mask[:, 1:])
    outputs = {"rnn_outputs": interests, "alphas": attention, "final_state": final, "y_hat": probs,
               "ctr_loss": ctr_loss, "aux_loss": aux_loss}
    return ctr_loss + aux_loss, outputs
