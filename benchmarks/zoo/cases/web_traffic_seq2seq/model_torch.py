"""Forecasts of page views: LSTM encoder, LSTM decoder, and an attention over past days from each page's fingerprint."""
import torch
from torch import nn
from torch.nn import functional as F

FORGET_BIAS = 1.0


def one_bias(lstm):
    """Leaves the one trained bias that the recurrence needs; the other holds the forget gates open."""
    for name, parameter in lstm.named_parameters():
        if name.startswith("bias_hh"):
            nn.init.zeros_(parameter)
            parameter.data[lstm.hidden_size:2 * lstm.hidden_size] = FORGET_BIAS
            parameter.requires_grad_(False)
        elif name.startswith("bias"):
            nn.init.zeros_(parameter)
        else:
            nn.init.uniform_(parameter, -0.3, 0.3)
    return lstm


class Fingerprint(nn.Module):
    def __init__(self, in_channels, days, dim):
        super().__init__()
        self.conv1 = nn.Conv1d(in_channels, 8, 7, padding=3)
        self.conv2 = nn.Conv1d(8, 8, 3, padding=1)
        self.pool1 = nn.MaxPool1d(2, ceil_mode=True)
        self.conv3 = nn.Conv1d(8, 12, 3, padding=1)
        self.pool2 = nn.MaxPool1d(2, ceil_mode=True)
        self.fc = nn.Linear(12 * ((days + 3) // 4), 24)
        self.out = nn.Linear(24, dim)

    def forward(self, x):
        x = F.relu(self.conv1(x.transpose(1, 2)))
        x = self.pool1(F.relu(self.conv2(x)))
        x = self.pool2(F.relu(self.conv3(x)))
        return F.selu(self.out(F.selu(self.fc(x.flatten(1)))))


class WindowAttention(nn.Module):
    """Averages the past once for every day to come, by windows that move with it."""

    def __init__(self, dim, days, horizon, heads):
        super().__init__()
        self.window, self.heads = days - horizon + 1, heads
        self.focus = nn.Linear(dim, self.window * heads)

    def forward(self, readout, page):
        weights = self.focus(page).view(-1, self.window, self.heads).softmax(dim=1)
        windows = readout.unfold(1, self.window, 1)  # [batch, horizon, depth, window]
        return torch.einsum("bndw,bwh->bnhd", windows, weights).flatten(2)


class Decoder(nn.Module):
    def __init__(self, in_size, hidden):
        super().__init__()
        self.cell = one_bias(nn.LSTMCell(in_size, hidden))
        self.proj = nn.Linear(hidden, 1)

    def forward(self, state, last, features):
        output, outputs = last.unsqueeze(1), []
        for t in range(features.size(1)):
            state = self.cell(torch.cat([output, features[:, t]], 1), state)
            output = self.proj(state[0])
            outputs.append(output)
        return torch.cat(outputs, 1)


class Model(nn.Module):
    def __init__(self, features=4, days=21, horizon=5, hidden=20, depth=6, heads=2, countries=3, known=2):
        super().__init__()
        self.encoder = one_bias(nn.LSTM(features, hidden, batch_first=True))
        self.fingerprint = Fingerprint(features, days, 8)
        self.compress = nn.Linear(hidden, depth)
        self.attention = WindowAttention(8 + countries, days, horizon, heads)
        self.decoder = Decoder(1 + known + heads * depth, hidden)

    def forward(self, x, x_last, y_features, page, norm_mean, norm_std):
        encoded, (h, c) = self.encoder(x)
        fingerprint = self.fingerprint(x)
        readout = F.selu(self.compress(encoded))
        attention = self.attention(readout, torch.cat([fingerprint, page], 1))
        normal = self.decoder((h[-1], c[-1]), x_last, torch.cat([y_features, attention], 2))
        predictions = normal * norm_std.unsqueeze(1) + norm_mean.unsqueeze(1)
        return encoded, fingerprint, attention, predictions


def smape_loss(true, predicted, mask, eps=0.1):
    true, predicted = torch.expm1(true), torch.expm1(predicted)
    total = (true.abs() + predicted.abs() + eps).clamp(min=0.5 + eps)
    smape = 2 * (predicted - true).abs() / total
    return (smape * mask).sum() / mask.sum()


def stability_loss(encoded, beta=0.2):
    norms = encoded.norm(dim=-1)
    return beta * norms.diff(dim=1).square().mean()


def loss(model, x, x_last, y_features, page, norm_mean, norm_std, true_y, known):
    encoded, fingerprint, attention, predictions = model(x, x_last, y_features, page, norm_mean, norm_std)
    smape = smape_loss(true_y, predictions, known)
    outputs = {"encoded": encoded, "fingerprint": fingerprint, "attention": attention, "predictions": predictions,
               "smape": smape}
    return smape + stability_loss(encoded), outputs


class RMSprop(torch.optim.Optimizer):
    """The RMSProp this was tuned with: mean squares from one, epsilon under the root, momentum of whole updates."""

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
                state["square_avg"].lerp_(p.grad.square(), 1 - group["alpha"])
                scaled = p.grad / (state["square_avg"] + group["eps"]).sqrt()
                state["momentum_buffer"].mul_(group["momentum"]).add_(scaled, alpha=group["lr"])
                p.sub_(state["momentum_buffer"])


def optimizer(model):
    trained = [p for p in model.parameters() if p.requires_grad]
    return RMSprop(trained, lr=0.01, alpha=0.9, momentum=0.5, eps=0.01)
