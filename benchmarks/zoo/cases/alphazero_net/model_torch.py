"""Residual policy and value network for a 6 by 6 board, trained with SGD and an l2 penalty in the loss."""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm2d(nn.BatchNorm2d):
    """Batch norm whose running variance is not corrected for the size of the batch."""

    def __init__(self, channels, affine=True):
        super().__init__(channels, eps=1e-5, momentum=0.05, affine=affine)

    def forward(self, x):
        if self.training:
            var, mean = torch.var_mean(x.detach(), dim=(0, 2, 3), unbiased=False)
            self.running_mean += self.momentum * (mean - self.running_mean)
            self.running_var += self.momentum * (var - self.running_var)
            return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)


def conv_norm(inputs, outputs, size, affine=True):
    return nn.Sequential(nn.Conv2d(inputs, outputs, size, padding=size // 2, bias=False), BatchNorm2d(outputs, affine))


class ResidualBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = conv_norm(channels, channels, 3)
        self.second = conv_norm(channels, channels, 3)

    def forward(self, x):
        return F.relu(x + self.second(F.relu(self.first(x))))


class Model(nn.Module):
    def __init__(self, planes=4, channels=16, blocks=2, board=6, width=16):
        super().__init__()
        self.stem = conv_norm(planes, channels, 3)
        self.trunk = nn.Sequential(*(ResidualBlock(channels) for _ in range(blocks)))
        self.policy_head = nn.Sequential(
            conv_norm(channels, 2, 1, affine=False), nn.ReLU(), nn.Flatten(), nn.Linear(2 * board * board, board * board + 1)
        )
        self.value_head = nn.Sequential(
            conv_norm(channels, 1, 1, affine=False), nn.ReLU(), nn.Flatten(),
            nn.Linear(board * board, width), nn.ReLU(), nn.Linear(width, 1), nn.Tanh(),
        )

    def forward(self, x):
        x = self.trunk(F.relu(self.stem(x)))
        return self.policy_head(x), self.value_head(x)


def l2_penalty(model):
    """Of all weights but the dense layers' biases; batch norm's weights and biases are decayed as the original does."""
    biases = {id(m.bias) for m in model.modules() if isinstance(m, nn.Linear)}
    return 0.5 * sum(p.square().sum() for p in model.parameters() if id(p) not in biases)


def loss(model, pos, pi, z):
    logits, value = model(pos.permute(0, 3, 1, 2))
    policy_loss = F.cross_entropy(logits, pi)
    value_loss = F.mse_loss(value.squeeze(1), z)
    penalty = 1e-3 * l2_penalty(model)
    entropy = torch.distributions.Categorical(logits=logits).entropy().mean()
    return policy_loss + value_loss + penalty, {
        "logits": logits,
        "value": value.squeeze(1),
        "policy_cost": policy_loss,
        "value_cost": value_loss,
        "l2_cost": penalty,
        "policy_entropy": entropy,
    }


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)


def rate(step):
    """The learning rate of the update that follows `step` updates."""
    return 0.02 if step <= 1 else 0.002
