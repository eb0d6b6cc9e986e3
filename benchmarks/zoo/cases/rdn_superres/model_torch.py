"""Residual Dense Network for image super-resolution (x2)."""

import torch
from torch import nn


class DenseLayer(nn.Module):
    def __init__(self, in_channels, growth):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, growth, 3, padding=1)

    def forward(self, x):
        return torch.cat([x, torch.relu(self.conv(x))], dim=1)


class ResidualDenseBlock(nn.Module):
    def __init__(self, channels, growth, num_layers):
        super().__init__()
        self.layers = nn.Sequential(*[DenseLayer(channels + i * growth, growth) for i in range(num_layers)])
        self.local_fusion = nn.Conv2d(channels + num_layers * growth, channels, 1)

    def forward(self, x):
        return x + self.local_fusion(self.layers(x))


class RDN(nn.Module):
    def __init__(self, channels=12, growth=6, num_blocks=2, num_layers=3, scale=2, colors=3):
        super().__init__()
        self.head = nn.Conv2d(colors, channels, 3, padding=1)
        self.head2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.blocks = nn.ModuleList(ResidualDenseBlock(channels, growth, num_layers) for _ in range(num_blocks))
        self.global_fusion = nn.Sequential(
            nn.Conv2d(num_blocks * channels, channels, 1),
            nn.Conv2d(channels, channels, 3, padding=1),
        )
        self.upsampler = nn.Sequential(
            nn.Conv2d(channels, 8, 5, padding=2),
            nn.ReLU(),
            nn.Conv2d(8, 6, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(6, colors * scale ** 2, 3, padding=1),
            nn.PixelShuffle(scale),
        )
        self.tail = nn.Conv2d(colors, colors, 3, padding=1)

    def forward(self, x):
        shallow = self.head(x)
        x = features = self.head2(shallow)
        local_features = []
        for block in self.blocks:
            x = block(x)
            local_features.append(x)
        dense = torch.cat(local_features, dim=1)
        fused = self.global_fusion(dense) + shallow
        upscaled = self.upsampler(fused)
        return {"shallow": shallow, "dense": dense, "fused": fused, "upscaled": upscaled, "output": self.tail(upscaled)}


def to_tensor(images):
    """Pixels 0..255, channels last, to 0..1 and channels first."""
    return images.permute(0, 3, 1, 2) / 255.0


def loss(model, lr, hr):
    out = model(to_tensor(lr))
    l1 = (out["output"] - to_tensor(hr)).abs().mean()
    return l1, out


class Adam(torch.optim.Optimizer):
    """Adam of the paper's section 2: the bias corrections go into the rate, epsilon is added to the uncorrected root."""

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
                p.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt().add_(group["eps"]), value=-rate)


def optimizer(model):
    return Adam(model.parameters(), lr=1e-3)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
