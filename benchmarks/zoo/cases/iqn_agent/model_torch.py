"""IQN: a network over (state, fraction) pairs, its target copy, and one training step."""

import math

import torch
from torch import nn
from torch.nn import functional as F

GAMMA, N_STEP, KAPPA = 0.99, 3, 1.0


class QuantileNetwork(nn.Module):
    def __init__(self, num_actions=4, embedding_dim=8, hidden=24):
        super().__init__()
        self.embedding_dim = embedding_dim
        self.conv1 = nn.Conv2d(4, 6, 4, stride=2, padding=1)
        self.conv2 = nn.Conv2d(6, 8, 3, stride=2)
        self.cosine = nn.Linear(embedding_dim, 72)
        self.hidden = nn.Linear(72, hidden)
        self.out = nn.Linear(hidden, num_actions)

    def features(self, states):
        x = F.relu(self.conv1(states.permute(0, 3, 1, 2) / 255.0))
        x = F.relu(self.conv2(F.pad(x, (0, 1, 0, 1))))
        return x.flatten(1)

    def forward(self, states, taus):
        batch, n = taus.shape
        orders = torch.arange(1, self.embedding_dim + 1, dtype=taus.dtype, device=taus.device)
        phi = F.relu(self.cosine(torch.cos(math.pi * orders * taus.reshape(-1, 1))))
        x = self.features(states).repeat_interleave(n, dim=0) * phi
        x = F.relu(self.hidden(x))
        return self.out(x).view(batch, n, -1)


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.policy_net = QuantileNetwork()
        self.target_net = QuantileNetwork()
        self.target_net.requires_grad_(False)

    def forward(self, states, actions, rewards, next_states, terminals, taus, next_taus, action_taus):
        quantiles = self.policy_net(states, taus)
        chosen = quantiles.gather(2, actions.view(-1, 1, 1).expand(-1, taus.size(1), 1)).squeeze(2)
        with torch.no_grad():
            best = self.target_net(next_states, action_taus).mean(dim=1).argmax(dim=1)
            following = self.target_net(next_states, next_taus)
            following = following.gather(2, best.view(-1, 1, 1).expand(-1, next_taus.size(1), 1)).squeeze(2)
            discount = GAMMA ** N_STEP * (1.0 - terminals)
            target = rewards.unsqueeze(1) + discount.unsqueeze(1) * following
        return chosen, target


def quantile_huber_loss(chosen, target, taus):
    errors = target.unsqueeze(2) - chosen.unsqueeze(1)  # batch, target fraction, own fraction
    huber = torch.where(errors.abs() <= KAPPA, 0.5 * errors.pow(2), KAPPA * (errors.abs() - 0.5 * KAPPA))
    weight = (taus.unsqueeze(1) - (errors.detach() < 0).to(errors.dtype)).abs()
    return (weight * huber / KAPPA).sum(dim=2).mean(dim=1).mean()


def loss(model, taus, actions, **transition):
    chosen, target = model(taus=taus, actions=actions.long(), **transition)
    return quantile_huber_loss(chosen, target, taus), {"chosen_quantiles": chosen, "target_quantiles": target}


class Adam(torch.optim.Optimizer):
    """Adam as the original trains with: epsilon is added to the second moment's root before its bias is corrected."""

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
                    state.update(step=0, exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
                state["step"] += 1
                state["exp_avg"].lerp_(p.grad, 1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                rate = group["lr"] * math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
                p.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt() + group["eps"], value=-rate)


def optimizer(model):
    return Adam([p for p in model.parameters() if p.requires_grad], lr=5e-4, eps=0.0003125)


def step(model, optimizer, scheduler, **batch):
    optimizer.zero_grad()
    value, outputs = loss(model, **batch)
    value.backward()
    optimizer.step()
    return value, outputs
