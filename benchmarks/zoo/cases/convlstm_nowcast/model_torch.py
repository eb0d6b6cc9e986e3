import torch
import torch.nn.functional as F
from torch import nn


class ConvLSTMCell(nn.Module):
    def __init__(self, in_channels, hidden, kernel_size=3):
        super().__init__()
        self.hidden = hidden
        self.conv = nn.Conv2d(in_channels + hidden, 4 * hidden, kernel_size, padding=kernel_size // 2, bias=False)
        self.peep_i = nn.Parameter(torch.randn(hidden) * 0.1)
        self.peep_f = nn.Parameter(torch.randn(hidden) * 0.1)
        self.peep_o = nn.Parameter(torch.randn(hidden) * 0.1)
        # one group: the layer norm of an image, with a gain by channel
        for gate in "gifoc":
            self.add_module(f"norm_{gate}", nn.GroupNorm(1, hidden))

    def forward(self, x, state):
        h, c = state
        g, i, f, o = self.conv(torch.cat([x, h], dim=1)).chunk(4, dim=1)
        g = torch.tanh(self.norm_g(g))
        i = torch.sigmoid(self.norm_i(i + self.peep_i[:, None, None] * c))
        f = torch.sigmoid(self.norm_f(f + self.peep_f[:, None, None] * c) + 1.0)
        new = f * c + i * g
        o = torch.sigmoid(self.norm_o(o + self.peep_o[:, None, None] * new))
        c = self.norm_c(new)
        return o * torch.tanh(c), c

    def start(self, x):
        zeros = x.new_zeros(x.shape[0], self.hidden, *x.shape[2:])
        return zeros, zeros


class Model(nn.Module):
    """Encodes the frames seen, then forecasts: each frame is the one before plus a change."""

    def __init__(self, hidden=7, patch=2):
        super().__init__()
        self.patch = patch
        self.encoder = ConvLSTMCell(patch ** 2, hidden)
        self.forecaster = ConvLSTMCell(patch ** 2, hidden)
        self.output = nn.Conv2d(hidden, patch ** 2, 1)

    def forward(self, frames, ahead):
        patches = F.pixel_unshuffle(frames.unsqueeze(2), self.patch)
        state = self.encoder.start(patches[:, 0])
        for x in patches.unbind(1):
            state = self.encoder(x, state)
        encoded, predictions = state[0], []
        for _ in range(ahead):
            state = self.forecaster(x, state)
            x = x + self.output(state[0])
            predictions.append(x)
        return encoded, F.pixel_shuffle(torch.stack(predictions, dim=1), self.patch).squeeze(2)


def normalise(dbz):
    return ((dbz + 10.0) / 70.0).clamp(0.0, 1.0)


def rain_weights(dbz):
    return 1.0 + (dbz >= 20).to(dbz) + 3 * (dbz >= 30).to(dbz) + 5 * (dbz >= 40).to(dbz)


def loss(model, frames, future, valid):
    encoded, prediction = model(normalise(frames), future.shape[1])
    error = prediction - normalise(future)
    weights = rain_weights(future) * valid
    mse = (weights * error ** 2).sum(dim=(1, 2, 3)).mean()
    mae = (weights * error.abs()).sum(dim=(1, 2, 3)).mean()
    return 0.05 * (mse + 0.5 * mae), {"encoded": encoded, "prediction": prediction, "mse": mse, "mae": mae}


class RMSprop(torch.optim.Optimizer):
    """RMSProp with TensorFlow's rule: accumulators begin at one, epsilon is under the root, the rate in the momentum."""

    def __init__(self, params, lr, alpha=0.9, momentum=0.0, eps=1e-10):
        super().__init__(params, dict(lr=lr, alpha=alpha, momentum=momentum, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["square_avg"] = torch.ones_like(p)
                    state["momentum_buffer"] = torch.zeros_like(p)
                square_avg, momentum_buffer = state["square_avg"], state["momentum_buffer"]
                square_avg.mul_(group["alpha"]).addcmul_(p.grad, p.grad, value=1 - group["alpha"])
                scaled = p.grad / (square_avg + group["eps"]).sqrt()
                momentum_buffer.mul_(group["momentum"]).add_(scaled, alpha=group["lr"])
                p.sub_(momentum_buffer)


def optimizer(model):
    return RMSprop(model.parameters(), lr=0.01, alpha=0.9, momentum=0.5, eps=0.001)


def clip_by_global_norm(parameters, limit):
    """torch.nn.utils.clip_grad_norm_ adds 1e-6 to the norm, tf.clip_by_global_norm does not."""
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.stack([g.norm() for g in grads]).norm()
    for g in grads:
        g.mul_(limit / norm.clamp(min=limit))


def step(model, optimizer, scheduler, frames, future, valid):
    optimizer.zero_grad()
    value, outputs = loss(model, frames, future, valid)
    value.backward()
    clip_by_global_norm(model.parameters(), 1.0)
    optimizer.step()
    return value, outputs
