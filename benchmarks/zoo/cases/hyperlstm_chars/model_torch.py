"""HyperLSTM with one module per gate and source for the scales, and group norm for the four gates."""

import torch
from torch import nn
from torch.nn import functional as F

FORGET_BIAS = 1.0
MAX_NORM = 0.05


class LSTMCell(nn.Module):
    """One linear for the gates i, g, f, o."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.linear = nn.Linear(input_size + hidden_size, 4 * hidden_size)

    def forward(self, x, state):
        h, c = state
        i, g, f, o = self.linear(torch.cat([x, h], dim=-1)).chunk(4, dim=-1)
        c = torch.sigmoid(f + FORGET_BIAS) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class HyperNorm(nn.Module):
    def __init__(self, hyper_size, embed_size, num_units, use_bias=True):
        super().__init__()
        self.z_w = nn.Linear(hyper_size, embed_size)
        self.alpha = nn.Linear(embed_size, num_units, bias=False)
        self.use_bias = use_bias
        if use_bias:
            self.z_b = nn.Linear(hyper_size, embed_size, bias=False)
            self.beta = nn.Linear(embed_size, num_units, bias=False)
        self.reset_parameters(0.1 / embed_size)

    def reset_parameters(self, gamma):
        nn.init.normal_(self.z_w.weight, std=0.01)
        nn.init.ones_(self.z_w.bias)
        nn.init.constant_(self.alpha.weight, gamma)
        if self.use_bias:
            nn.init.normal_(self.z_b.weight, std=0.01)
            nn.init.zeros_(self.beta.weight)

    def forward(self, x, hyper):
        scale = self.alpha(self.z_w(hyper))
        if not self.use_bias:
            return scale * x
        return torch.addcmul(self.beta(self.z_b(hyper)), scale, x)


class HyperLSTMCell(nn.Module):
    GATES = "ijfo"

    def __init__(self, input_size, num_units, hyper_size, embed_size):
        super().__init__()
        self.hyper_cell = LSTMCell(input_size + num_units, hyper_size)
        self.w_x = nn.Linear(input_size, 4 * num_units, bias=False)
        self.w_h = nn.Linear(num_units, 4 * num_units, bias=False)
        self.bias = nn.Parameter(torch.zeros(4 * num_units))
        self.norm_x = nn.ModuleDict({g: HyperNorm(hyper_size, embed_size, num_units, use_bias=False) for g in self.GATES})
        self.norm_h = nn.ModuleDict({g: HyperNorm(hyper_size, embed_size, num_units) for g in self.GATES})
        self.ln_gates = nn.GroupNorm(4, 4 * num_units, eps=1e-3)
        self.ln_c = nn.LayerNorm(num_units, eps=1e-3)

    def forward(self, x, state):
        h, c, small = state
        small = self.hyper_cell(torch.cat([x, h], dim=-1), small)
        hyper = small[0]
        from_x, from_h = self.w_x(x).chunk(4, dim=-1), self.w_h(h).chunk(4, dim=-1)
        gates = [self.norm_x[g](a, hyper) + self.norm_h[g](b, hyper) for g, a, b in zip(self.GATES, from_x, from_h)]
        i, j, f, o = self.ln_gates(torch.cat(gates, dim=-1) + self.bias).chunk(4, dim=-1)
        c = c * torch.sigmoid(f + FORGET_BIAS) + torch.sigmoid(i) * torch.tanh(j)
        h = torch.tanh(self.ln_c(c)) * torch.sigmoid(o)
        return h, c, small


class CharModel(nn.Module):
    def __init__(self, chars=20, embedding=10, num_units=14, hyper_size=8, embed_size=4):
        super().__init__()
        self.num_units, self.hyper_size = num_units, hyper_size
        self.embedding = nn.Embedding(chars, embedding)
        self.cell = HyperLSTMCell(embedding, num_units, hyper_size, embed_size)
        self.decoder = nn.Linear(num_units, chars)

    def forward(self, tokens):
        x = self.embedding(tokens)
        zeros = x.new_zeros(len(x), self.num_units)
        small = x.new_zeros(len(x), self.hyper_size)
        state = (zeros, zeros, (small, small))
        hidden = []
        for step in x.unbind(1):
            state = self.cell(step, state)
            hidden.append(state[0])
        hidden = torch.stack(hidden, dim=1)
        return hidden, self.decoder(hidden), state[2][1]


def loss(model, inputs, targets, mask):
    hidden, logits, hyper_c = model(inputs.long())
    xent = F.cross_entropy(logits.transpose(1, 2), targets.long(), reduction="none")
    value = ((xent * mask).sum(1) / mask.sum(1)).mean()
    return value, {"hidden": hidden, "logits": logits, "hyper_c": hyper_c, "perplexity": value.exp()}


class TFAdam(torch.optim.Optimizer):
    """Adam with TensorFlow's place for epsilon."""

    def __init__(self, params, lr, betas=(0.9, 0.99), eps=1e-6):
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
                    state.update(step=0, exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
                state["step"] += 1
                state["exp_avg"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                size = group["lr"] * (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
                p.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt().add_(group["eps"]), value=-size)


def optimizer(model):
    return TFAdam(model.parameters(), lr=0.002)


def clip_each_(parameters, limit):
    """Every gradient to a norm of its own."""
    for p in parameters:
        p.grad.mul_(limit / p.grad.norm().clamp(min=limit))


def step(model, optimizer, scheduler, inputs, targets, mask):
    optimizer.zero_grad()
    value, outputs = loss(model, inputs, targets, mask)
    value.backward()
    clip_each_(model.parameters(), MAX_NORM)
    optimizer.step()
    return value, outputs
