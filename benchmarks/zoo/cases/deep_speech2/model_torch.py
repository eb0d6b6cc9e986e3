"""Deep Speech 2 in the small: two strided convolutions, two bidirectional recurrent layers, a label for every frame."""

import torch
from torch import nn
from torch.nn import functional as F


def clipped_relu(x, limit=3.0):
    return x.clamp(0.0, limit)


class SequenceNorm(nn.BatchNorm1d):
    """Batch norm over batch and time; keeps the biased variance, as the original does."""

    def forward(self, x):
        flat = x.reshape(-1, x.size(-1))
        if self.training:
            with torch.no_grad():
                var, mean = torch.var_mean(flat, dim=0, unbiased=False)
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var, self.momentum)
            flat = F.batch_norm(flat, None, None, self.weight, self.bias, True, 0.0, self.eps)
        else:
            flat = F.batch_norm(flat, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)
        return flat.view_as(x)


def reverse_padded(x, lengths):
    """Turns each sequence around within its own length; the padding stays behind it."""
    steps = torch.arange(x.size(1), device=x.device)[None, :]
    index = torch.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)
    return x.gather(1, index[:, :, None].expand_as(x))


class Recurrence(nn.Module):
    """One direction: h = clipped_relu(W [x, h] + b); zeros come out behind the end of a sequence."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.cell = nn.Linear(input_size + hidden_size, hidden_size)

    def forward(self, x, lengths):
        h = x.new_zeros(x.size(0), self.hidden_size)
        outputs = []
        for t in range(x.size(1)):
            new = clipped_relu(self.cell(torch.cat([x[:, t], h], dim=1)))
            alive = (t < lengths)[:, None]
            h = torch.where(alive, new, h)
            outputs.append(torch.where(alive, new, torch.zeros_like(new)))
        return torch.stack(outputs, dim=1)


class BiRecurrence(nn.Module):
    def __init__(self, input_size, hidden_size, norm):
        super().__init__()
        self.norm = SequenceNorm(input_size, eps=1e-5, momentum=0.03) if norm else nn.Identity()
        self.forward_rnn = Recurrence(input_size, hidden_size)
        self.backward_rnn = Recurrence(input_size, hidden_size)

    def forward(self, x, lengths):
        x = self.norm(x)
        ahead = self.forward_rnn(x, lengths)
        back = self.backward_rnn(reverse_padded(x, lengths), lengths)
        return ahead + reverse_padded(back, lengths)


class DeepSpeech(nn.Module):
    def __init__(self, num_bands=12, num_classes=11, hidden_size=24):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, stride=(2, 2))
        self.conv2 = nn.Conv2d(6, 8, 5, stride=(1, 2))
        self.rnn1 = BiRecurrence(num_bands // 4 * 8, hidden_size, norm=False)
        self.rnn2 = BiRecurrence(hidden_size, hidden_size, norm=True)
        self.output = nn.Linear(hidden_size, num_classes)

    def forward(self, features, lengths):
        # SAME of TensorFlow: left, right, top, bottom
        x = clipped_relu(self.conv1(F.pad(features.unsqueeze(1), (1, 2, 1, 2))))
        conv = clipped_relu(self.conv2(F.pad(x, (1, 2, 2, 2))))
        x = conv.permute(0, 2, 3, 1).flatten(2)
        rnn1 = self.rnn1(x, lengths)
        rnn2 = self.rnn2(rnn1, lengths)
        return {"conv": conv, "rnn1": rnn1, "rnn2": rnn2, "logits": self.output(rnn2)}


def loss(model, features, frames, targets):
    lengths = (frames.long() + 1) // 2
    out = model(features, lengths)
    logits, targets = out["logits"], targets.long()
    mask = (torch.arange(logits.size(1), device=logits.device)[None, :] < lengths[:, None]).to(logits.dtype)
    class_weights = logits.new_ones(logits.size(-1))
    class_weights[-1] = 0.3  # silence
    losses = F.cross_entropy(logits.transpose(1, 2), targets, weight=class_weights, reduction="none")
    return (losses * mask).sum() / mask.sum(), out


def clip_gradients(parameters, limit):
    """Scales all gradients alike, so that their joint norm is at most `limit`."""
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in grads]))
    for grad in grads:
        grad.mul_(limit / norm.clamp(min=limit))


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda update: 0.9 ** update)


def step(model, optimizer, scheduler, **batch):
    optimizer.zero_grad()
    total, out = loss(model, **batch)
    total.backward()
    clip_gradients(model.parameters(), 1.5)
    optimizer.step()
    scheduler.step()
    return total, out
