"""STGCN in torch's layout [batch, channels, time, vertices]."""

import torch
from torch import nn
from torch.nn import functional as F


def road_graph(n, sigma2=0.6, epsilon=0.2):
    """Gaussian weights of the distances between the stations, without those that are too small."""
    index = torch.arange(n, dtype=torch.float64)
    position = torch.cumsum(0.3 + 0.25 * torch.cos(index * 1.7), dim=0)
    weights = torch.exp(-(position[:, None] - position[None, :]) ** 2 / sigma2)
    weights[weights < epsilon] = 0
    return weights.fill_diagonal_(0)


def chebyshev_polynomials(weights, order):
    """The first polynomials of the normalised Laplacian, scaled to [-1, 1]: [order, n, n]."""
    identity = torch.eye(len(weights), dtype=weights.dtype)
    degree = weights.sum(dim=1)
    laplacian = identity - weights / torch.sqrt(degree[:, None] * degree[None, :])
    scaled = 2 * laplacian / torch.linalg.eigvalsh(laplacian).max() - identity
    terms = [identity, scaled]
    for _ in range(2, order):
        terms.append(2 * scaled @ terms[-1] - terms[-2])
    return torch.stack(terms[:order])


class Align(nn.Module):
    """Brings the residual to the number of channels: by a 1x1 convolution, or with zeros."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.more = out_channels - in_channels
        self.conv = nn.Conv2d(in_channels, out_channels, 1, bias=False) if self.more < 0 else None

    def forward(self, x):
        if self.conv is not None:
            return self.conv(x)
        return F.pad(x, (0, 0, 0, 0, 0, self.more)) if self.more else x


class GatedTemporalConv(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.kernel_size = kernel_size
        self.align = Align(in_channels, out_channels)
        self.conv = nn.Conv2d(in_channels, 2 * out_channels, (kernel_size, 1))

    def forward(self, x):
        residual = self.align(x)[:, :, self.kernel_size - 1 :]
        p, q = self.conv(x).chunk(2, dim=1)
        return (p + residual) * torch.sigmoid(q)


class TemporalConv(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.kernel_size = kernel_size
        self.align = Align(in_channels, out_channels)
        self.conv = nn.Conv2d(in_channels, out_channels, (kernel_size, 1))

    def forward(self, x):
        return F.relu(self.conv(x) + self.align(x)[:, :, self.kernel_size - 1 :])


class ChebGraphConv(nn.Module):
    def __init__(self, in_channels, out_channels, polynomials):
        super().__init__()
        self.polynomials = polynomials  # constant, kept in double precision
        self.linear = nn.Linear(in_channels * len(polynomials), out_channels)

    def forward(self, x):
        mixed = torch.einsum("bctn,knm->btmck", x, self.polynomials.to(x))
        out = self.linear(mixed.flatten(3)).permute(0, 3, 1, 2)
        return F.relu(out + x)


class STConvBlock(nn.Module):
    def __init__(self, channels, kernel_size, polynomials):
        super().__init__()
        c_in, c_mid, c_out = channels
        self.temporal1 = GatedTemporalConv(c_in, c_mid, kernel_size)
        self.graph = ChebGraphConv(c_mid, c_mid, polynomials)
        self.temporal2 = TemporalConv(c_mid, c_out, kernel_size)
        self.norm = nn.LayerNorm([polynomials.size(-1), c_out], eps=1e-6)

    def forward(self, x):
        x = self.temporal2(self.graph(self.temporal1(x)))
        x = x.permute(0, 2, 3, 1)
        x = self.norm(x)
        return x.permute(0, 3, 1, 2)


class OutputBlock(nn.Module):
    def __init__(self, channels, steps, n_vertex):
        super().__init__()
        self.temporal = GatedTemporalConv(channels, channels, steps)
        self.norm = nn.LayerNorm([n_vertex, channels], eps=1e-6)
        self.conv = nn.Conv2d(channels, channels, 1)
        self.fc = nn.Conv2d(channels, 1, 1, bias=False)
        self.bias = nn.Parameter(torch.zeros(n_vertex))

    def forward(self, x):
        x = self.norm(self.temporal(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.fc(torch.sigmoid(self.conv(x))) + self.bias


class Model(nn.Module):
    def __init__(self, n_vertex=11, n_his=12, kernel_size=3, order=3, channels=((1, 6, 10), (10, 5, 14))):
        super().__init__()
        polynomials = chebyshev_polynomials(road_graph(n_vertex), order)
        self.blocks = nn.ModuleList(STConvBlock(c, kernel_size, polynomials) for c in channels)
        steps = n_his - 2 * (kernel_size - 1) * len(channels)
        self.output = OutputBlock(channels[-1][-1], steps, n_vertex)

    def forward(self, x):
        features = []
        for block in self.blocks:
            x = block(x)
            features.append(x)
        return features, self.output(x)


def loss(model, x):
    x = x.permute(0, 3, 1, 2)
    history, target = x[:, :, :12], x[:, :, 12:]
    features, prediction = model(history)
    total = 0.5 * F.mse_loss(prediction, target, reduction="sum")
    outputs = {"block_%d" % i: feature for i, feature in enumerate(features)}
    outputs["prediction"] = prediction[:, 0, 0]
    outputs["copy_loss"] = 0.5 * (history[:, :, -1:] - target).pow(2).sum()
    return total, outputs


class RMSpropTF(torch.optim.Optimizer):
    """RMSprop with epsilon inside the root and averages that start at one, as the original's optimizer has them."""

    def __init__(self, params, lr=1e-3, alpha=0.9, eps=1e-10):
        super().__init__(params, dict(lr=lr, alpha=alpha, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["square_avg"] = torch.ones_like(p)
                square_avg = state["square_avg"]
                square_avg.mul_(group["alpha"]).addcmul_(p.grad, p.grad, value=1 - group["alpha"])
                p.addcdiv_(p.grad, square_avg.add(group["eps"]).sqrt(), value=-group["lr"])


def optimizer(model):
    return RMSpropTF(model.parameters(), lr=1e-3, alpha=0.9)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.7)
