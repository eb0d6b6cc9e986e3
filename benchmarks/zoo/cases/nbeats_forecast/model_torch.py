"""N-BEATS: a trend, a seasonality and a generic stack of doubly residual blocks."""

import math

import numpy as np
import torch
from torch import nn


class TrendBasis(nn.Module):
    """Polynomials of the time; the first half of theta is the forecast's."""

    def __init__(self, degree, backcast_size, forecast_size):
        super().__init__()
        self.theta_size = 2 * (degree + 1)
        self.powers = np.arange(degree + 1)[:, None]
        self.backcast_time = np.arange(backcast_size) / backcast_size
        self.forecast_time = np.arange(forecast_size) / forecast_size

    def forward(self, theta):
        forecast_theta, backcast_theta = theta.chunk(2, dim=1)
        backcast = backcast_theta @ theta.new_tensor(self.backcast_time**self.powers)
        forecast = forecast_theta @ theta.new_tensor(self.forecast_time**self.powers)
        return backcast, forecast


class SeasonalityBasis(nn.Module):
    """Cosines and sines; the first half of theta is the forecast's."""

    def __init__(self, harmonics, backcast_size, forecast_size):
        super().__init__()
        frequency = np.append(0.0, np.arange(harmonics, harmonics / 2 * forecast_size) / harmonics)[:, None]
        backcast_grid = -2 * np.pi * frequency * (np.arange(backcast_size) / forecast_size)
        forecast_grid = 2 * np.pi * frequency * (np.arange(forecast_size) / forecast_size)
        self.theta_size = 4 * len(frequency)
        self.backcast = np.concatenate([np.cos(backcast_grid), np.sin(backcast_grid)])
        self.forecast = np.concatenate([np.cos(forecast_grid), np.sin(forecast_grid)])

    def forward(self, theta):
        forecast_theta, backcast_theta = theta.chunk(2, dim=1)
        return backcast_theta @ theta.new_tensor(self.backcast), forecast_theta @ theta.new_tensor(self.forecast)


class GenericBasis(nn.Module):
    def __init__(self, backcast_size, forecast_size):
        super().__init__()
        self.theta_size = backcast_size + forecast_size
        self.backcast_size, self.forecast_size = backcast_size, forecast_size

    def forward(self, theta):
        return theta[:, : self.backcast_size], theta[:, -self.forecast_size :]


class Block(nn.Module):
    def __init__(self, basis, input_size, n_layers, width):
        super().__init__()
        sizes = [input_size] + [width] * n_layers
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.theta = nn.Linear(width, basis.theta_size)
        self.basis = basis

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.basis(self.theta(x))


class Stack(nn.Module):
    """Each block sees what the blocks before it have not explained."""

    def __init__(self, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, residuals, forecast, mask):
        for block in self.blocks:
            backcast, block_forecast = block(residuals)
            residuals = (residuals - backcast) * mask
            forecast = forecast + block_forecast
        return residuals, forecast


class Model(nn.Module):
    def __init__(self, backcast_size=15, forecast_size=7):
        super().__init__()
        sizes = backcast_size, forecast_size
        # blocks of interpretable stacks share their weights
        self.trend = Stack([Block(TrendBasis(2, *sizes), backcast_size, 3, 24)] * 2)
        self.seasonality = Stack([Block(SeasonalityBasis(2, *sizes), backcast_size, 2, 26)] * 2)
        self.generic = Stack([Block(GenericBasis(*sizes), backcast_size, 2, 20) for _ in range(2)])

    def forward(self, history, mask):
        residuals, mask = history.flip(1), mask.flip(1)
        forecast = history[:, -1:]
        residuals, trend = self.trend(residuals, forecast, mask)
        residuals, seasonal = self.seasonality(residuals, trend, mask)
        residuals, forecast = self.generic(residuals, seasonal, mask)
        return trend, seasonal, residuals, forecast


def divide_no_nan(a, b):
    zero = b == 0
    return torch.where(zero, torch.zeros_like(a), a / b.masked_fill(zero, 1.0))


def smape_loss(forecast, target, mask):
    denominator = (forecast.abs() + target.abs()).detach()
    return 200 * (divide_no_nan((forecast - target).abs(), denominator) * mask).mean()


def mape_loss(forecast, target, mask):
    ratio = divide_no_nan((forecast - target).abs(), target)
    return 100 * (ratio * mask).mean()


def loss(model, x, x_mask, y, y_mask):
    trend, seasonal, residuals, forecast = model(x, x_mask)
    smape, mape = smape_loss(forecast, y, y_mask), mape_loss(forecast, y, y_mask)
    return smape + 0.1 * mape, {
        "trend": trend,
        "seasonal": seasonal,
        "residuals": residuals,
        "forecast": forecast,
        "smape": smape,
        "mape": mape,
    }


class RMSpropTF(torch.optim.Optimizer):
    """RMSprop as TensorFlow has it: epsilon inside the root, squares that start at one, the rate inside the momentum."""

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
                square_avg, buffer = state["square_avg"], state["momentum_buffer"]
                square_avg.mul_(group["alpha"]).addcmul_(p.grad, p.grad, value=1 - group["alpha"])
                root = (square_avg + group["eps"]).sqrt()
                buffer.mul_(group["momentum"]).addcdiv_(p.grad, root, value=group["lr"])
                p.sub_(buffer)


def optimizer(model):
    return RMSpropTF(model.parameters(), lr=2e-3, alpha=0.9, momentum=0.5, eps=1e-3)


def rate(step):
    return 2e-3 * 0.5 * (1 + math.cos(math.pi * min(step, 10) / 10))
