import torch
from torch import nn
from torch.nn import functional as F

ALPHA = 0.3


class BatchNorm1d(nn.BatchNorm1d):
    """Batch norm over [batch, channels, frames] whose running variance takes the biased one of the batch."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            n = x.numel() / x.size(1)
            var, mean = torch.var_mean(x, dim=(0, 2), unbiased=True)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var * (n - 1) / n, self.momentum)
            self.num_batches_tracked += 1
        return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)


class BLSTM(nn.LSTM):
    """Bidirectional layers with one bias that is trained; bias_hh only opens the forget gates by one and stays."""

    def __init__(self, input_size, hidden_size, num_layers):
        super().__init__(input_size, hidden_size, num_layers, batch_first=True, bidirectional=True)
        for name, p in self.named_parameters():
            if "bias_hh" in name:
                forget = torch.zeros(4, hidden_size)
                forget[1] = 1.0
                p.data.copy_(forget.flatten())
                p.requires_grad = False
            elif "bias_ih" in name:
                p.data.zero_()


class Chimera(nn.Module):
    def __init__(self, bins=9, hidden=7, layers=2, embedding=4, sources=2):
        super().__init__()
        self.register_buffer("shift", torch.tensor(-1.3))
        self.register_buffer("spread", torch.tensor(1.2))
        self.bins, self.embedding, self.sources = bins, embedding, sources
        self.rnn = BLSTM(bins, hidden, layers)
        self.norm = BatchNorm1d(2 * hidden, eps=1e-3, momentum=0.1)
        self.embed = nn.Sequential(nn.Linear(2 * hidden, bins * embedding), nn.Tanh())
        self.mask = nn.Linear(2 * hidden, bins * sources)

    def forward(self, mixture):
        x = (torch.log(mixture + 1e-3) - self.shift.to(mixture)) / self.spread.to(mixture)
        hidden, _ = self.rnn(x)
        hidden = self.norm(hidden.transpose(1, 2)).transpose(1, 2)
        n, frames, _ = hidden.shape
        v = self.embed(hidden).view(n, frames * self.bins, self.embedding)
        v = F.normalize(v, p=2, dim=-1)
        masks = self.mask(hidden).view(n, frames, self.bins, self.sources).permute(0, 3, 1, 2).softmax(dim=1)
        return hidden, v, masks


def affinity_loss(v, y, vad):
    v = v * vad
    y = y * vad
    squared = lambda a, b: torch.einsum("bnd,bne->bde", a, b).pow(2).sum(dim=(1, 2))
    value = squared(v, v) - 2 * squared(v, y) + squared(y, y)
    return value.mean() / 2 / v.size(1)


def permutation_free_loss(masks, mixture, sources):
    estimate = masks * mixture.unsqueeze(1)
    errors = [(estimate - sources[:, order]).square().mean(dim=(1, 2, 3)) for order in ([0, 1], [1, 0])]
    return torch.stack(errors).amin(dim=0).mean()


def loss(model, mixture, sources, Y, VAD):
    hidden, v, masks = model(mixture)
    dc = affinity_loss(v, Y.flatten(1, 2), VAD.flatten(1).unsqueeze(-1))
    mi = permutation_free_loss(masks, mixture, sources.permute(0, 3, 1, 2))
    return ALPHA * dc + (1 - ALPHA) * mi, {"hidden": hidden, "embeddings": v, "masks": masks, "dc_loss": dc, "mi_loss": mi}


class RMSprop(torch.optim.Optimizer):
    """RMSprop with epsilon under the root, mean squares that begin at one, and the rate inside the momentum."""

    def __init__(self, params, lr, alpha=0.9, momentum=0.0, eps=1e-10):
        super().__init__(params, dict(lr=lr, alpha=alpha, momentum=momentum, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["square_avg"] = torch.ones_like(p)
                    state["momentum_buffer"] = torch.zeros_like(p)
                square_avg, buffer = state["square_avg"], state["momentum_buffer"]
                square_avg.mul_(group["alpha"]).addcmul_(p.grad, p.grad, value=1 - group["alpha"])
                update = p.grad / torch.sqrt(square_avg + group["eps"])
                buffer.mul_(group["momentum"]).add_(update, alpha=group["lr"])
                p.sub_(buffer)


def optimizer(model):
    return RMSprop([p for p in model.parameters() if p.requires_grad], lr=0.002, alpha=0.9, momentum=0.5, eps=1e-6)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.6 ** (step / 2))


def step(model, optimizer, scheduler, **inputs):
    optimizer.zero_grad(set_to_none=True)
    value, outputs = loss(model, **inputs)
    value.backward()
    optimizer.step()
    scheduler.step()
    return value, outputs
