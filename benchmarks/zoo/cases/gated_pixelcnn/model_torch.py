import math

import torch
import torch.nn as nn
import torch.nn.functional as F

LEVELS = 5
CLASSES = 4
LEARNING_RATE = 3e-3
GRAD_CLIP = 0.02


class MaskedConv2d(nn.Conv2d):
    """A convolution that sees nothing at and behind (mask a), or nothing behind (mask b), the middle of one axis."""

    def __init__(self, in_channels, out_channels, kernel_size, axis, mask_type):
        padding = tuple(k // 2 for k in kernel_size)
        super().__init__(in_channels, out_channels, kernel_size, padding=padding)
        first = kernel_size[axis] // 2 + (mask_type == "b")
        mask = torch.ones(1, 1, *kernel_size)
        mask.narrow(2 + axis, first, kernel_size[axis] - first).zero_()
        self.register_buffer("mask", mask)

    def forward(self, x):
        return F.conv2d(x, self.weight * self.mask, self.bias, self.stride, self.padding)


class VerticalConv(MaskedConv2d):
    def __init__(self, in_channels, out_channels, k, mask_type):
        super().__init__(in_channels, out_channels, (k, k), axis=0, mask_type=mask_type)


class HorizontalConv(MaskedConv2d):
    def __init__(self, in_channels, out_channels, k, mask_type):
        super().__init__(in_channels, out_channels, (1, k), axis=1, mask_type=mask_type)


class Gate(nn.Module):
    def forward(self, x):
        value, gate = x.chunk(2, dim=1)
        return torch.tanh(value) * torch.sigmoid(gate)


class GatedLayer(nn.Module):
    def __init__(self, in_channels, channels, kernel_size, mask_type, residual):
        super().__init__()
        self.vertical = VerticalConv(in_channels, 2 * channels, kernel_size, mask_type)
        self.vertical_class = nn.Embedding(CLASSES, 2 * channels)
        self.vertical_to_horizontal = nn.Conv2d(channels, 2 * channels, 1)
        self.horizontal = HorizontalConv(in_channels, 2 * channels, kernel_size, mask_type)
        self.horizontal_class = nn.Embedding(CLASSES, 2 * channels)
        self.gate = Gate()
        self.out = nn.Conv2d(channels, channels, 1)
        self.residual = residual

    def forward(self, v, h, labels):
        v = self.gate(self.vertical(v) + self.vertical_class(labels)[:, :, None, None])
        x = self.horizontal(h) + self.horizontal_class(labels)[:, :, None, None]
        x = x + self.vertical_to_horizontal(v)
        x = self.out(self.gate(x))
        return v, x + h if self.residual else x


class Model(nn.Module):
    def __init__(self, channels=12, n_layers=3):
        super().__init__()
        self.layers = nn.ModuleList([GatedLayer(1, channels, 5, "a", residual=False)])
        for _ in range(n_layers - 1):
            self.layers.append(GatedLayer(channels, channels, 3, "b", residual=True))
        self.fc1 = nn.Conv2d(channels, 16, 1)
        self.fc2 = nn.Conv2d(16, LEVELS, 1)

    def forward(self, images, labels):
        v = h = images.permute(0, 3, 1, 2) / (LEVELS - 1)
        for layer in self.layers:
            v, h = layer(v, h, labels)
        logits = self.fc2(F.relu(self.fc1(F.relu(h))))
        return v, h, logits


def loss(model, images, labels, valid):
    v, h, logits = model(images, labels.long())
    targets = images.squeeze(3).long()
    nll = F.cross_entropy(logits, targets, reduction="none")
    value = (nll * valid).sum() / valid.sum()
    return value, {"v_stack": v, "h_stack": h, "logits": logits, "bits_per_dim": value.detach() / math.log(2.0)}


class RMSpropTF(torch.optim.Optimizer):
    """RMSProp as TensorFlow has it: starts from ones, epsilon under the root, learning rate inside the momentum."""

    def __init__(self, params, lr, alpha=0.9, momentum=0.0, eps=1e-10):
        super().__init__(params, dict(lr=lr, alpha=alpha, momentum=momentum, eps=eps))

    @torch.no_grad()
    def step(self):
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
                denom = (square_avg + group["eps"]).sqrt()
                buf.mul_(group["momentum"]).addcdiv_(p.grad, denom, value=group["lr"])
                p.sub_(buf)


def optimizer(model):
    return RMSpropTF(model.parameters(), lr=LEARNING_RATE, alpha=0.95, momentum=0.9)


def step(model, optimizer, scheduler, images, labels, valid):
    optimizer.zero_grad()
    value, outputs = loss(model, images, labels, valid)
    value.backward()
    nn.utils.clip_grad_value_(model.parameters(), GRAD_CLIP)
    optimizer.step()
    return value, outputs
