"""Spatial transformer network. Samples as the original does, whose pixel grid is not that of grid_sample."""

import torch
from torch import nn
from torch.nn import functional as F


def affine_grid(theta, size):
    """The points [batch, 2, size * size] that an affine map of [-1, 1] x [-1, 1] reads from, x first."""
    steps = torch.linspace(-1.0, 1.0, size, dtype=theta.dtype, device=theta.device)
    ys, xs = torch.meshgrid(steps, steps, indexing="ij")
    points = torch.stack([xs.flatten(), ys.flatten(), torch.ones_like(xs).flatten()])
    return theta @ points


def bilinear_sample(image, grid, size):
    """Samples [batch, channels, h, w] at the points of the grid; what lies outside of the image is zero."""
    batch, channels, height, width = image.shape
    x = (grid[:, 0] + 1.0) * width / 2.0
    y = (grid[:, 1] + 1.0) * height / 2.0
    left, top = x.floor().long(), y.floor().long()
    x0, x1 = left.clamp(0, width - 1), (left + 1).clamp(0, width - 1)
    y0, y1 = top.clamp(0, height - 1), (top + 1).clamp(0, height - 1)
    pixels = image.flatten(2)

    def read(rows, columns):
        index = (rows * width + columns).unsqueeze(1).expand(-1, channels, -1)
        return pixels.gather(2, index)

    top_left = (x1 - x) * (y1 - y)
    bottom_left = (x1 - x) * (y - y0)
    top_right = (x - x0) * (y1 - y)
    bottom_right = (x - x0) * (y - y0)
    out = (
        top_left.unsqueeze(1) * read(y0, x0)
        + bottom_left.unsqueeze(1) * read(y1, x0)
        + top_right.unsqueeze(1) * read(y0, x1)
        + bottom_right.unsqueeze(1) * read(y1, x1)
    )
    return out.view(batch, channels, size, size)


class Localization(nn.Module):
    def __init__(self, in_features, hidden=20):
        super().__init__()
        self.fc1 = nn.Linear(in_features, hidden)
        self.fc2 = nn.Linear(hidden, 6)
        nn.init.zeros_(self.fc2.weight)
        with torch.no_grad():
            self.fc2.bias.copy_(torch.tensor([1.0, 0.0, 0.0, 0.0, 1.0, 0.0]))

    def forward(self, x):
        x = torch.tanh(self.fc1(x.flatten(1)))
        return torch.tanh(self.fc2(x))


class SpatialTransformer(nn.Module):
    def __init__(self, image_size, out_size):
        super().__init__()
        self.out_size = out_size
        self.localization = Localization(image_size * image_size)

    def forward(self, x):
        theta = self.localization(x)
        grid = affine_grid(theta.view(-1, 2, 3), self.out_size)
        return theta, bilinear_sample(x, grid, self.out_size)


class Model(nn.Module):
    def __init__(self, image_size=24, out_size=16, num_classes=10):
        super().__init__()
        self.stn = SpatialTransformer(image_size, out_size)
        self.conv1 = nn.Conv2d(1, 12, 3, stride=2)
        self.conv2 = nn.Conv2d(12, 16, 3, stride=2)
        self.fc1 = nn.Linear(16 * 4 * 4, 48)
        self.fc2 = nn.Linear(48, num_classes)

    def forward(self, images):
        theta, transformed = self.stn(images)
        # SAME at stride 2 pads below and on the right
        x = F.relu(self.conv1(F.pad(transformed, (0, 1, 0, 1))))
        x = F.relu(self.conv2(F.pad(x, (0, 1, 0, 1))))
        x = F.relu(self.fc1(x.flatten(1)))
        return theta, transformed, self.fc2(x)


def loss(model, images, labels):
    theta, transformed, logits = model(images.view(-1, 1, 24, 24))
    return F.cross_entropy(logits, labels.long()), {"theta": theta, "transformed": transformed, "logits": logits}


class Adam(torch.optim.Optimizer):
    """Adam as in section 2 of the paper, with its epsilon hat: added to the root before the bias correction."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
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
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p)
                    state["exp_avg_sq"] = torch.zeros_like(p)
                state["step"] += 1
                state["exp_avg"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                rate = group["lr"] * (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
                p.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt() + group["eps"], value=-rate)


def optimizer(model):
    return Adam(model.parameters(), lr=1e-3, eps=1e-4)
