"""LSTM autoencoder for anomaly detection."""

import torch
from torch import nn


class PeepholeLSTM(nn.Module):
    """LSTM whose gates see the cell state; the output gate sees the new one. Returns the state at the end of each sequence."""

    def __init__(self, input_size, hidden_size, forget_bias=1.0):
        super().__init__()
        self.hidden_size, self.forget_bias = hidden_size, forget_bias
        self.linear = nn.Linear(input_size + hidden_size, 4 * hidden_size)
        self.peep_i = nn.Parameter(torch.empty(hidden_size).uniform_(-0.2, 0.2))
        self.peep_f = nn.Parameter(torch.empty(hidden_size).uniform_(-0.2, 0.2))
        self.peep_o = nn.Parameter(torch.empty(hidden_size).uniform_(-0.2, 0.2))

    def forward(self, x, lengths):
        h = c = x.new_zeros(x.size(0), self.hidden_size)
        for t in range(x.size(1)):
            i, j, f, o = self.linear(torch.cat([x[:, t], h], dim=1)).chunk(4, dim=1)
            keep = torch.sigmoid(f + self.forget_bias + self.peep_f * c)
            new_c = keep * c + torch.sigmoid(i + self.peep_i * c) * torch.tanh(j)
            new_h = torch.sigmoid(o + self.peep_o * new_c) * torch.tanh(new_c)
            alive = (t < lengths)[:, None]
            h, c = torch.where(alive, new_h, h), torch.where(alive, new_c, c)
        return h, c


class Decoder(nn.Module):
    def __init__(self, channels, hidden_size):
        super().__init__()
        self.lstm = nn.LSTM(channels, hidden_size, batch_first=True)
        self.out = nn.Linear(hidden_size, channels)
        # TensorFlow's cell has one bias and adds 1 to the forget gate: the second bias only holds that 1
        nn.init.zeros_(self.lstm.bias_hh_l0)
        self.lstm.bias_hh_l0.data[hidden_size:2 * hidden_size] = 1.0
        self.lstm.bias_hh_l0.requires_grad_(False)

    def forward(self, state, target, mask):
        inputs = torch.cat([torch.zeros_like(target[:, :1]), target[:, :-1]], dim=1)
        h, c = state
        outputs, _ = self.lstm(inputs, (h.unsqueeze(0), c.unsqueeze(0)))
        outputs = outputs * mask.unsqueeze(-1)
        return outputs, self.out(outputs)


class Autoencoder(nn.Module):
    def __init__(self, channels=4, hidden_size=20):
        super().__init__()
        self.encoder = PeepholeLSTM(channels, hidden_size)
        self.decoder = Decoder(channels, hidden_size)

    def forward(self, readings, lengths):
        steps = torch.arange(readings.size(1), device=readings.device)[None, :]
        mask = steps < lengths[:, None]
        # backwards within the length of each series
        index = torch.where(mask, lengths[:, None] - 1 - steps, steps)
        target = readings.gather(1, index.unsqueeze(-1).expand_as(readings))
        h, c = self.encoder(readings, lengths)
        mask = mask.to(readings.dtype)
        outputs, written = self.decoder((h, c), target, mask)
        errors = (written - target).pow(2).mean(dim=2) * mask
        scores = errors.sum(dim=1) / lengths
        return {"code": c, "decoded": outputs, "written": written, "scores": scores}


def loss(model, readings, lengths):
    out = model(readings, lengths.long())
    decayed = [p for name, p in model.named_parameters() if "bias" not in name]
    return out["scores"].mean() + 0.5 * 1e-3 * sum(p.pow(2).sum() for p in decayed), out


class RMSpropTF(torch.optim.Optimizer):
    """RMSProp as TensorFlow has it: the mean square begins at 1, epsilon is under the root, momentum takes up the scaled step."""

    def __init__(self, params, lr, alpha=0.9, momentum=0.0, eps=1e-10):
        super().__init__(params, {"lr": lr, "alpha": alpha, "momentum": momentum, "eps": eps})

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
                square_avg, buf = state["square_avg"], state["momentum_buffer"]
                square_avg.mul_(group["alpha"]).addcmul_(p.grad, p.grad, value=1 - group["alpha"])
                avg = square_avg.add(group["eps"]).sqrt()
                buf.mul_(group["momentum"]).add_(group["lr"] * p.grad / avg)
                p.sub_(buf)


def optimizer(model):
    trained = [p for p in model.parameters() if p.requires_grad]
    return RMSpropTF(trained, lr=0.05, alpha=0.9, momentum=0.5, eps=1e-3)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda update: 1 / (1 + 0.5 * update))


def step(model, optimizer, scheduler, readings, lengths):
    optimizer.zero_grad()
    total, out = loss(model, readings, lengths)
    total.backward()
    torch.nn.utils.clip_grad_value_(model.parameters(), 0.01)
    optimizer.step()
    scheduler.step()
    return total, out
