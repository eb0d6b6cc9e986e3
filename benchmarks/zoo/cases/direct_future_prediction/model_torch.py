"""Direct future prediction in PyTorch, and the Adam it is trained with."""
import math

import torch
from torch import nn
from torch.nn import functional as F

NUM_ACTIONS, TARGET_DIM = 5, 12


def mlp(*sizes):
    layers = []
    for n_in, n_out in zip(sizes, sizes[1:]):
        layers += [nn.Linear(n_in, n_out), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers)


class Perception(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 4, stride=2, padding=1)
        self.conv2 = nn.Conv2d(8, 12, 3, stride=2)
        self.fc = nn.Linear(12 * 5 * 5, 32)

    def forward(self, images):
        x = images.permute(0, 3, 1, 2) / 255 - 0.5
        x = F.leaky_relu(self.conv1(x), 0.2)
        x = F.pad(x, (0, 1, 0, 1))  # 10 -> 5, the odd row and column are on the far side
        x = F.leaky_relu(self.conv2(x), 0.2)
        return F.leaky_relu(self.fc(x.flatten(1)), 0.2)


class Head(nn.Module):
    def __init__(self, in_dim, hidden=24):
        super().__init__()
        self.expectation = nn.Sequential(mlp(in_dim, hidden), nn.Linear(hidden, TARGET_DIM))
        self.action = nn.Sequential(mlp(in_dim, hidden), nn.Linear(hidden, NUM_ACTIONS * TARGET_DIM))

    def forward(self, x):
        advantage = self.action(x).view(-1, NUM_ACTIONS, TARGET_DIM)
        advantage = advantage - advantage.mean(dim=1, keepdim=True)
        return self.expectation(x).unsqueeze(1) + advantage


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.perception = Perception()
        self.measurement = mlp(3, 16, 16)
        self.goal = mlp(12, 16, 16)
        self.head = Head(32 + 16 + 16)
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                nn.init.zeros_(module.bias)

    def forward(self, images, measurements, goals):
        x = torch.cat([
            self.perception(images),
            self.measurement(measurements / 100 - 0.5),
            self.goal(goals),
        ], dim=1)
        return self.head(x)


def loss(model, images, measurements, goals, actions, targets, valid):
    predictions = model(images, measurements, goals)
    taken = predictions[torch.arange(len(actions), device=actions.device), actions.long()]
    error = (taken - targets / 10) * valid
    per_target = error.square().mean(dim=0)
    return per_target.sum(), {"pred_all": predictions, "per_target_max": per_target.max()}


class AdamTF(torch.optim.Optimizer):
    """Adam as tf.train.AdamOptimizer computes it: epsilon is added to the uncorrected root."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(step=0, exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
                state["step"] += 1
                state["exp_avg"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                rate = group["lr"] * math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
                p.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt().add_(group["eps"]), value=-rate)


def optimizer(model):
    return AdamTF(model.parameters(), lr=1e-3, betas=(0.95, 0.999), eps=1e-4)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.3)
