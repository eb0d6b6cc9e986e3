import torch
from torch import nn
from torch.nn import functional as F

CLIP, L1, BUFFER = 0.7, 1e-3, 1


class BatchNorm(nn.BatchNorm1d):
    """Keeps the variance of the batch as it is used, without the factor n / (n - 1)."""

    def __init__(self, channels):
        super().__init__(channels, eps=1e-3, momentum=0.1)

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                mean = x.mean(dim=(0, 2))
                var = x.var(dim=(0, 2), unbiased=False)
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var, self.momentum)
            return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)


class ConvBlock(nn.Module):
    def __init__(self, in_channels, out_channels, size, pool=1, dilation=1):
        super().__init__()
        self.conv = nn.Conv1d(in_channels, out_channels, size, padding="same", dilation=dilation, bias=False)
        self.norm = BatchNorm(out_channels)
        self.pool = nn.MaxPool1d(pool, ceil_mode=True) if pool > 1 else nn.Identity()

    def forward(self, x):
        return self.pool(F.relu_(self.norm(self.conv(x))))


class DilatedTrunk(nn.Module):
    """Every layer sees what all layers before it have made."""

    def __init__(self, channels, growth, dilations):
        super().__init__()
        self.blocks = nn.ModuleList()
        for dilation in dilations:
            self.blocks.append(ConvBlock(channels, growth, 3, dilation=dilation))
            channels += growth
        self.out_channels = channels

    def forward(self, x):
        for block in self.blocks:
            x = torch.cat([x, block(x)], dim=1)
        return x


class Model(nn.Module):
    def __init__(self, targets=3):
        super().__init__()
        self.stem = nn.Sequential(ConvBlock(4, 12, 7, pool=4), ConvBlock(12, 18, 5, pool=2))
        self.trunk = DilatedTrunk(18, 6, (1, 2, 4))
        self.head = nn.Sequential(nn.Conv1d(self.trunk.out_channels, targets, 1), nn.Softplus())

    def predict(self, x):
        first = self.stem[0](x)
        second = self.stem[1](first)
        trunk = self.trunk(second)
        return first, second, trunk, self.head(trunk[..., BUFFER:-BUFFER])

    def forward(self, seq, flip):
        x = seq.transpose(1, 2)
        # the bases stand in the order A, C, G, T, so that the complement reverses the channels
        other = x.flip(1, 2)
        if self.training:
            turn = flip.bool()[:, None, None]
            first, second, trunk, preds = self.predict(torch.where(turn, other, x))
            return first, second, trunk, torch.where(turn, preds.flip(2), preds)
        first, second, trunk, preds = self.predict(torch.cat([x, other]))
        here, there = preds.chunk(2)
        return first, second, trunk, (here + there.flip(2)) / 2


def loss(model, seq, counts, flip):
    first, second, trunk, preds = model(seq, flip)
    poisson = F.poisson_nll_loss(preds.log(), counts.transpose(1, 2), log_input=True, full=False)
    weight = dict(model.named_parameters())
    final = next(p for name, p in weight.items() if name.endswith("head.0.weight"))
    penalty = L1 * final.abs().sum()
    return poisson + penalty, {"tower0": first, "tower1": second, "trunk": trunk, "preds": preds, "poisson": poisson,
                               "penalty": penalty}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def clip_(parameters, limit):
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.stack([g.norm() for g in grads]).norm()
    for g in grads:
        g.mul_(limit / norm.clamp(min=limit))


def step(model, optimizer, scheduler, seq, counts, flip):
    optimizer.zero_grad(set_to_none=True)
    value, outputs = loss(model, seq, counts, flip)
    value.backward()
    clip_(model.parameters(), CLIP)
    optimizer.step()
    return value, outputs
