import numpy as np
import torch
from torch import nn
from torch.optim.lr_scheduler import MultiStepLR

NODES, MEAN, STD = 7, 54.0, 19.5
CLIP = 0.5


def road_graph():
    src, dst = np.meshgrid(np.arange(NODES), np.arange(NODES), indexing="ij")
    length = np.where(dst >= src, dst - src, 1.6 * (src - dst)) + 0.25 * ((3 * src + dst) % 4 == 1)
    weight = np.exp(-((length / 2.0) ** 2))
    weight[weight < 0.1] = 0.0
    return weight


def transitions():
    """Transposed random walk matrices: along the edges, and against them."""
    adj = road_graph()
    forward = adj / adj.sum(1, keepdims=True)
    backward = adj.T / adj.T.sum(1, keepdims=True)
    return torch.from_numpy(np.stack([forward.T, backward.T]).astype(np.float32))


class DiffusionConv(nn.Module):
    """Chebyshev-like powers of each transition matrix, then one linear map over all of them; as in the published code the
    second matrix starts from where the first one has stopped."""

    def __init__(self, in_dim, out_dim, steps=2, bias_start=0.0):
        super().__init__()
        self.steps = steps
        self.register_buffer("walks", transitions(), persistent=False)
        self.linear = nn.Linear(in_dim * (2 * steps + 1), out_dim)
        nn.init.xavier_uniform_(self.linear.weight)
        nn.init.constant_(self.linear.bias, bias_start)

    def forward(self, x, h):
        before = torch.cat([x, h], dim=-1)
        terms = [before]
        for walk in self.walks:
            now = torch.einsum("mn,bnc->bmc", walk, before)
            terms.append(now)
            for _ in range(1, self.steps):
                before, now = now, 2 * torch.einsum("mn,bnc->bmc", walk, now) - before
                terms.append(now)
        return self.linear(torch.stack(terms, dim=-1).flatten(-2))


class DCGRUCell(nn.Module):
    def __init__(self, in_dim, units):
        super().__init__()
        self.gates = DiffusionConv(in_dim + units, 2 * units, bias_start=1.0)
        self.candidate = DiffusionConv(in_dim + units, units)

    def forward(self, x, h):
        reset, update = self.gates(x, h).sigmoid().chunk(2, dim=-1)
        proposal = self.candidate(x, reset * h).tanh()
        return torch.lerp(proposal, h, update)


class Encoder(nn.Module):
    def __init__(self, in_dim, units, layers):
        super().__init__()
        self.units = units
        self.layers = nn.ModuleList([DCGRUCell(units if i else in_dim, units) for i in range(layers)])

    def forward(self, x):
        states = [x.new_zeros(x.size(0), NODES, self.units) for _ in self.layers]
        for t in range(x.size(1)):
            out = x[:, t]
            for i, layer in enumerate(self.layers):
                out = states[i] = layer(out, states[i])
        return states


class Decoder(nn.Module):
    def __init__(self, out_dim, units, layers, horizon):
        super().__init__()
        self.horizon = horizon
        self.layers = nn.ModuleList([DCGRUCell(units if i else out_dim, units) for i in range(layers)])
        self.projection = nn.Linear(units, out_dim, bias=False)

    def forward(self, states, teacher):
        states = list(states)
        out = torch.zeros_like(teacher[:, 0])
        outputs = []
        for t in range(self.horizon):
            if t and self.training:
                out = teacher[:, t - 1]
            for i, layer in enumerate(self.layers):
                out = states[i] = layer(out, states[i])
            out = self.projection(out)
            outputs.append(out)
        return torch.stack(outputs, dim=1)


class Model(nn.Module):
    def __init__(self, units=8, layers=2, horizon=4):
        super().__init__()
        self.encoder = Encoder(2, units, layers)
        self.decoder = Decoder(1, units, layers, horizon)

    def forward(self, x, y):
        states = self.encoder(x)
        scaled = self.decoder(states, (y - MEAN) / STD)
        return torch.stack(states, dim=1), scaled


def masked_mae(pred, target):
    mask = (target != 0).to(pred.dtype)
    mask = mask / mask.mean()
    return ((pred - target).abs() * mask).mean()


def loss(model, x, y):
    encoded, scaled = model(x, y)
    pred = scaled * STD + MEAN
    known = y != 0
    rmse = (pred - y)[known].square().mean().sqrt()
    return masked_mae(pred, y), {"encoded": encoded, "scaled": scaled, "rmse": rmse}


class Adam(torch.optim.Optimizer):
    """Adam with the bias correction folded into the rate, so that epsilon stands beside the uncorrected root."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-3):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            b1, b2 = group["betas"]
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
                p.addcdiv_(m, v.sqrt().add_(group["eps"]), value=-rate)


def optimizer(model):
    return Adam(model.parameters(), lr=0.01)


def scheduler(optimizer):
    # the boundary itself still has the first rate
    return MultiStepLR(optimizer, milestones=[2], gamma=0.1)


def step(model, optimizer, scheduler, x, y):
    optimizer.zero_grad()
    value, outputs = loss(model, x, y)
    value.backward()
    grads = [p.grad for p in model.parameters()]
    norm = torch.linalg.vector_norm(torch.stack([g.norm() for g in grads]))
    torch._foreach_mul_(grads, CLIP / max(norm.item(), CLIP))
    optimizer.step()
    scheduler.step()
    return value, outputs
