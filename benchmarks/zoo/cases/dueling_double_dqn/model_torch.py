"""Dueling double DQN on prioritised replay."""

import copy

import torch
from torch import nn
from torch.nn import functional as F


class QNetwork(nn.Module):
    def __init__(self, num_actions=4, frames=2):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(frames, 8, kernel_size=4, stride=2), nn.ReLU(),
            nn.Conv2d(8, 16, kernel_size=3), nn.ReLU(),
            nn.Flatten())
        self.value = nn.Sequential(nn.Linear(144, 24), nn.ReLU(), nn.Linear(24, 1))
        self.advantage = nn.Sequential(nn.Linear(144, 24), nn.ReLU(), nn.Linear(24, num_actions))

    def forward(self, obs):
        features = self.features(obs / 255.0)
        if features.requires_grad:
            # two streams send their gradients into the convolutions
            features.register_hook(lambda grad: grad * 2 ** -0.5)
        advantage = self.advantage(features)
        return self.value(features) + advantage - advantage.mean(dim=1, keepdim=True)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.online = QNetwork()
        self.target = copy.deepcopy(self.online).requires_grad_(False)

    def forward(self, obs, next_obs):
        q = self.online(obs)
        with torch.no_grad():
            best = self.online(next_obs).argmax(dim=1)
            next_q = self.target(next_obs)
        return q, next_q, best


def td_loss(model, obs, actions, rewards, next_obs, dones, weights, gamma=0.99):
    obs, next_obs = obs.permute(0, 3, 1, 2), next_obs.permute(0, 3, 1, 2)
    q, next_q, best = model(obs, next_obs)
    next_value = next_q.gather(1, best[:, None]).squeeze(1)
    target = rewards + gamma * (1 - dones) * next_value
    chosen = q.gather(1, actions.long()[:, None]).squeeze(1)
    loss = (weights * F.smooth_l1_loss(chosen, target, reduction="none")).mean()
    return loss, {"q_values": q, "next_q_values": next_q, "td_error": chosen - target}


def clip_each_(parameters, max_norm):
    for p in parameters:
        if p.grad is not None:
            p.grad.mul_(max_norm / p.grad.norm().clamp(min=max_norm))


class RMSpropTF(torch.optim.Optimizer):
    """Centered RMSprop as TensorFlow does it: epsilon under the root, averages of squares that begin at one."""

    def __init__(self, params, lr, alpha, momentum, eps):
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
                    state["grad_avg"] = torch.zeros_like(p)
                    state["momentum_buffer"] = torch.zeros_like(p)
                square_avg, grad_avg, buf = state["square_avg"], state["grad_avg"], state["momentum_buffer"]
                square_avg.lerp_(p.grad ** 2, 1 - group["alpha"])
                grad_avg.lerp_(p.grad, 1 - group["alpha"])
                avg = (square_avg - grad_avg ** 2 + group["eps"]).sqrt()
                buf.mul_(group["momentum"]).addcdiv_(p.grad, avg, value=group["lr"])
                p.sub_(buf)


def optimizer(model):
    params = [p for p in model.parameters() if p.requires_grad]
    return RMSpropTF(params, lr=1e-3, alpha=0.95, momentum=0.9, eps=0.01)


def step(model, optimizer, scheduler, **transitions):
    optimizer.zero_grad()
    loss, outputs = td_loss(model, **transitions)
    loss.backward()
    clip_each_(model.parameters(), 0.3)
    optimizer.step()
    return loss, outputs
