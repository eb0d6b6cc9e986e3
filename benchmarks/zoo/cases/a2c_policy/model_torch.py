"""Advantage actor-critic in PyTorch, with the update of its own."""

import torch
from torch import nn
from torch.distributions import Categorical


class Flatten(nn.Module):
    """As the original does it, height and width before channels."""

    def forward(self, x):
        return x.permute(0, 2, 3, 1).flatten(1)


class Model(nn.Module):
    def __init__(self, num_inputs=4, num_actions=5, hidden_size=32):
        super().__init__()
        self.base = nn.Sequential(
            nn.Conv2d(num_inputs, 8, 3), nn.ReLU(),
            nn.Conv2d(8, 12, 4, stride=2), nn.ReLU(),
        )
        self.hidden = nn.Sequential(Flatten(), nn.Linear(12 * 3 * 3, hidden_size), nn.ReLU())
        self.actor = nn.Linear(hidden_size, num_actions)
        self.critic = nn.Linear(hidden_size, 1)
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.orthogonal_(module.weight, 0.01 if module is self.actor else 1.0 if module is self.critic else 2 ** 0.5)
                nn.init.zeros_(module.bias)

    def forward(self, obs):
        conv = self.base(obs / 255.0)
        latent = self.hidden(conv)
        return conv, latent, self.actor(latent), self.critic(latent).squeeze(-1)


def loss(model, obs, actions, returns):
    conv, latent, logits, values = model(obs.permute(0, 3, 1, 2).contiguous())
    dist = Categorical(logits=logits)
    advantages = returns - values
    action_loss = -(advantages.detach() * dist.log_prob(actions)).mean()
    entropy = dist.entropy().mean()
    value_loss = 0.5 * advantages.pow(2).mean()
    total = action_loss + 0.5 * value_loss - 0.05 * entropy
    return total, {"conv": conv, "latent": latent, "pi": logits, "vf": values, "pg_loss": action_loss,
                   "entropy": entropy, "vf_loss": value_loss}


class RMSprop(torch.optim.Optimizer):
    """TensorFlow's: epsilon is inside the root, and the mean square begins at one."""

    def __init__(self, params, lr, alpha=0.99, eps=0.1):
        super().__init__(params, dict(lr=lr, alpha=alpha, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["square_avg"] = torch.ones_like(p)
                square_avg = state["square_avg"]
                square_avg.mul_(group["alpha"]).addcmul_(p.grad, p.grad, value=1 - group["alpha"])
                p.addcdiv_(p.grad, square_avg.add(group["eps"]).sqrt(), value=-group["lr"])


def optimizer(model):
    return RMSprop(model.parameters(), lr=7e-3, alpha=0.99, eps=0.1)


def clip_by_global_norm(parameters, max_norm):
    grads = [p.grad for p in parameters]
    total = torch.sqrt(sum(g.pow(2).sum() for g in grads))
    if total > max_norm:
        for g in grads:
            g.mul_(max_norm / total)


def step(model, optimizer, scheduler, obs, actions, returns):
    total, parts = loss(model, obs, actions, returns)
    optimizer.zero_grad()
    total.backward()
    clip_by_global_norm(list(model.parameters()), 0.5)
    optimizer.step()
    return total, parts
