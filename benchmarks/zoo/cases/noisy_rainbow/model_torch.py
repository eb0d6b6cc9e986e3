"""Noisy dueling Q network with three-step double Q targets; the noise is drawn by the replay loader."""

import torch
from torch import nn
from torch.nn import functional as F


class NoisyLinear(nn.Module):
    """Linear layer with factorised Gaussian noise, drawn anew for every example."""

    def __init__(self, in_features, out_features, sigma0=0.4):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        bound = in_features ** -0.5
        self.weight = nn.Parameter(torch.empty(out_features, in_features).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(out_features).uniform_(-bound, bound))
        self.weight_sigma = nn.Parameter(torch.full((out_features, in_features), sigma0 * bound))
        self.bias_sigma = nn.Parameter(torch.full((out_features,), sigma0 * bound))

    def forward(self, x, noise):
        noise = noise.sign() * noise.abs().sqrt()
        eps_in, eps_out = noise.split([self.in_features, self.out_features], dim=1)
        spread = F.linear(x * eps_in, self.weight_sigma, self.bias_sigma)
        return F.linear(x, self.weight, self.bias) + spread * eps_out


class QNetwork(nn.Module):
    def __init__(self, n_actions=5, hidden=24):
        super().__init__()
        self.conv1 = nn.Conv2d(4, 8, 4, stride=2)
        self.conv2 = nn.Conv2d(8, 16, 3)
        self.value_hidden = NoisyLinear(64, hidden)
        self.value_out = NoisyLinear(hidden, 1)
        self.advantage_hidden = NoisyLinear(64, hidden)
        self.advantage_out = NoisyLinear(hidden, n_actions)

    def forward(self, obs, noise):
        layers = (self.value_hidden, self.value_out, self.advantage_hidden, self.advantage_out)
        noises = noise.split([layer.in_features + layer.out_features for layer in layers], dim=1)
        x = obs.permute(0, 3, 1, 2).to(noise.dtype) / 255
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        # the loader's noise counts features with the channels last
        x = x.permute(0, 2, 3, 1).flatten(1)
        value = F.relu(self.value_hidden(x, noises[0]))
        value = self.value_out(value, noises[1])
        advantage = F.relu(self.advantage_hidden(x, noises[2]))
        advantage = self.advantage_out(advantage, noises[3])
        return value + advantage - advantage.mean(dim=1, keepdim=True)


class Model(nn.Module):
    def __init__(self, gamma=0.97, n_step=3):
        super().__init__()
        self.gamma, self.n_step = gamma, n_step
        self.online = QNetwork()
        self.frozen = QNetwork().requires_grad_(False)

    @torch.no_grad()
    def targets(self, next_obs, rewards, dones, noise):
        choice = self.online(next_obs, noise[:, 1]).argmax(dim=1, keepdim=True)
        bootstrap = self.frozen(next_obs, noise[:, 2]).gather(1, choice).squeeze(1)
        alive = (1 - dones).cumprod(dim=1)
        before = torch.cat([torch.ones_like(alive[:, :1]), alive[:, :-1]], dim=1)
        discounts = self.gamma ** torch.arange(self.n_step, dtype=rewards.dtype, device=rewards.device)
        returns = (discounts * before * rewards).sum(dim=1)
        return returns + self.gamma ** self.n_step * alive[:, -1] * bootstrap

    def forward(self, obs, next_obs, actions, rewards, dones, noise):
        q_values = self.online(obs, noise[:, 0])
        chosen = q_values.gather(1, actions.long().unsqueeze(1)).squeeze(1)
        return q_values, chosen, self.targets(next_obs, rewards, dones, noise)


def loss(model, obs, next_obs, actions, rewards, dones, weights, noise):
    q_values, chosen, target = model(obs, next_obs, actions, rewards, dones, noise)
    losses = F.smooth_l1_loss(chosen, target, reduction="none")
    total = (weights * losses).mean()
    return total, {"q_values": q_values, "target": target, "priorities": (chosen - target).abs()}


class Adam(torch.optim.Optimizer):
    """Adam as in the first version of the paper's section 2: epsilon is added to the uncorrected root."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8):
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
    return Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3, eps=1.5e-4)


def clip_by_global_norm(parameters, limit):
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.stack([g.square().sum() for g in grads]).sum().sqrt()
    scale = limit / norm.clamp(min=limit)
    for g in grads:
        g.mul_(scale)


def step(model, optimizer, scheduler, **batch):
    optimizer.zero_grad()
    total, outputs = loss(model, **batch)
    total.backward()
    clip_by_global_norm(model.parameters(), 0.25)
    optimizer.step()
    return total, outputs
