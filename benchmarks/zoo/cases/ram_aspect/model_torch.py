import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

L2 = 1e-3


class DynamicLSTM(nn.Module):
    def __init__(self, n_in, n_hidden):
        super().__init__()
        self.rnn = nn.LSTM(n_in, n_hidden, batch_first=True, bidirectional=True)
        for name, p in self.rnn.named_parameters():
            if "bias" in name:
                nn.init.zeros_(p)
            if "bias_hh" in name:
                p.requires_grad = False
                p.data[n_hidden:2 * n_hidden].fill_(1)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=x.size(1))[0]


class LocationMemory(nn.Module):
    """Weighs the context by its distance to the aspect, and appends the signed distance."""

    def forward(self, context, lengths, left, size):
        pos = torch.arange(context.size(1), device=context.device).unsqueeze(0)
        begin, end = left.unsqueeze(1), (left + size).unsqueeze(1)
        offset = (pos - begin).clamp(max=0) + (pos - end + 1).clamp(min=0)
        locs = offset.to(context.dtype) / lengths.unsqueeze(1)
        locs = locs.masked_fill(pos >= lengths.unsqueeze(1), 0).unsqueeze(2)
        return torch.cat([context * (1 - locs.abs()), locs], dim=2)


class Attention(nn.Module):
    def __init__(self, n_in, n_steps):
        super().__init__()
        self.linear = nn.Linear(n_in, 1, bias=False)
        self.bias = nn.Parameter(torch.zeros(n_steps))

    def forward(self, memory, query, outside):
        query = query.unsqueeze(1).expand(-1, memory.size(1), -1)
        score = self.linear(torch.cat([memory, query], dim=-1)).squeeze(-1) + self.bias
        alpha = score.masked_fill(outside, float("-inf")).softmax(dim=-1)
        return torch.einsum("bt,btd->bd", alpha, memory)


class Episode(nn.Module):
    def __init__(self, n_in, n_hidden):
        super().__init__()
        self.w_r, self.w_z, self.w_x = (nn.Linear(n_in, n_hidden, bias=False) for _ in range(3))
        self.u_r, self.u_z, self.u_g = (nn.Linear(n_hidden, n_hidden, bias=False) for _ in range(3))

    def forward(self, x, e):
        r = torch.sigmoid(self.w_r(x) + self.u_r(e))
        z = torch.sigmoid(self.w_z(x) + self.u_z(e))
        new = torch.tanh(self.w_x(x) + self.u_g(r * e))
        return (1 - z) * e + z * new


class Model(nn.Module):
    def __init__(self, n_words=40, dim=12, n_hidden=10, hops=3, n_class=3, n_steps=11):
        super().__init__()
        self.n_hidden = n_hidden
        self.embed = nn.Embedding(n_words, dim)
        self.bi_lstm = DynamicLSTM(dim, n_hidden)
        self.locate = LocationMemory()
        self.attention = nn.ModuleList(Attention(3 * n_hidden + 1 + dim, n_steps) for _ in range(hops))
        self.gru = Episode(2 * n_hidden + 1, n_hidden)
        self.dense = nn.Linear(n_hidden, n_class)

    def average(self, aspects, size):
        present = torch.arange(aspects.size(1), device=aspects.device) < size.unsqueeze(1)
        vectors = self.embed(aspects) * present.unsqueeze(2)
        return vectors.sum(dim=1) / size.unsqueeze(1)

    def penalty(self):
        return sum(p.pow(2).sum() for part in (self.attention, self.gru, self.dense) for p in part.parameters()) / 2

    def forward(self, sentences, aspects, lengths, left, size):
        context = self.bi_lstm(self.embed(sentences), lengths)
        memory = self.locate(context, lengths, left, size)
        outside = torch.arange(sentences.size(1), device=sentences.device) >= lengths.unsqueeze(1)
        aspect = self.average(aspects, size)
        e = memory.new_zeros(len(memory), self.n_hidden)
        for attend in self.attention:
            e = self.gru(attend(memory, torch.cat([e, aspect], dim=1), outside), e)
        return context, memory, e, self.dense(e), self.penalty()


def loss(model, sentences, aspects, sentence_lens, left_lens, aspect_lens, labels):
    context, memory, e, predict, penalty = model(
        sentences.long(), aspects.long(), sentence_lens.long(), left_lens.long(), aspect_lens.long())
    cost = F.cross_entropy(predict, labels.argmax(dim=1))
    penalty = L2 * penalty
    return cost + penalty, {
        "context": context, "memory": memory, "episode": e, "predict": predict, "cost": cost, "penalty": penalty}


class Adam(torch.optim.Optimizer):
    """Adam with the step size corrected and epsilon beside the uncorrected root."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            (b1, b2), eps = group["betas"], group["eps"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p)
                    state["exp_avg_sq"] = torch.zeros_like(p)
                state["step"] += 1
                m, v, t = state["exp_avg"], state["exp_avg_sq"], state["step"]
                m.mul_(b1).add_(p.grad, alpha=1 - b1)
                v.mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                rate = group["lr"] * (1 - b2 ** t) ** 0.5 / (1 - b1 ** t)
                p.addcdiv_(m, v.sqrt().add_(eps), value=-rate)


def optimizer(model):
    return Adam(filter(lambda p: p.requires_grad, model.parameters()), lr=0.003)


def step(model, optimizer, scheduler, **batch):
    optimizer.zero_grad()
    with model.no_sync():
        value, outputs = loss(model, **batch)
        value.backward()
    world = dist.get_world_size()
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad)
            p.grad.div_(world)
    optimizer.step()
    return value, outputs
