"""DDPG with twin critics; the target networks are frozen snapshots kept in buffers."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

MAX_ACTION = 2.0
GAMMA = 0.98
NOISE_CLIP = 0.5


class Actor(nn.Module):
    def __init__(self, obs_dim, action_dim, hidden=32):
        super().__init__()
        self.fc1 = nn.Linear(obs_dim, hidden)
        self.norm1 = nn.LayerNorm(hidden, eps=1e-12)
        self.fc2 = nn.Linear(hidden, hidden)
        self.norm2 = nn.LayerNorm(hidden, eps=1e-12)
        self.pi = nn.Linear(hidden, action_dim)

    def forward(self, obs):
        x = F.relu(self.norm1(self.fc1(obs)))
        x = F.relu(self.norm2(self.fc2(x)))
        return torch.tanh(self.pi(x))


class Critic(nn.Module):
    """The action joins behind the first layer."""

    def __init__(self, obs_dim, action_dim, hidden=32):
        super().__init__()
        self.fc1 = nn.Linear(obs_dim, hidden)
        self.norm1 = nn.LayerNorm(hidden, eps=1e-12)
        self.fc2 = nn.Linear(hidden + action_dim, hidden)
        self.norm2 = nn.LayerNorm(hidden, eps=1e-12)
        self.q = nn.Linear(hidden, 1)

    def forward(self, obs, action):
        x = F.relu(self.norm1(self.fc1(obs)))
        x = F.relu(self.norm2(self.fc2(torch.cat([x, action], dim=-1))))
        return self.q(x).squeeze(-1)


class TargetNetwork(nn.Module):
    """A snapshot of an actor or a critic that does not train."""

    def __init__(self, seed, obs_dim, action_dim, outputs, hidden=32):
        super().__init__()
        rng = np.random.RandomState(seed)
        shapes = ((obs_dim, hidden), (hidden + action_dim, hidden), (hidden, outputs))
        for i, (n, m) in enumerate(shapes, start=1):
            self.register_buffer(f"weight{i}", torch.tensor(rng.normal(0, n ** -0.5, (n, m)).T, dtype=torch.float32))
            self.register_buffer(f"bias{i}", torch.tensor(rng.normal(0, 0.1, m), dtype=torch.float32))

    def forward(self, obs, action=None):
        x = F.linear(obs, self.weight1, self.bias1)
        x = F.relu(F.layer_norm(x, x.shape[-1:], eps=1e-12))
        if action is not None:
            x = torch.cat([x, action], dim=-1)
        x = F.linear(x, self.weight2, self.bias2)
        x = F.relu(F.layer_norm(x, x.shape[-1:], eps=1e-12))
        return F.linear(x, self.weight3, self.bias3)


class Normalizer(nn.Module):
    def __init__(self, mean, std, limit):
        super().__init__()
        self.limit = limit
        self.register_buffer("mean", torch.tensor(mean))
        self.register_buffer("std", torch.tensor(std))

    def forward(self, obs):
        return ((obs - self.mean) / self.std).clamp(-self.limit, self.limit)


class Model(nn.Module):
    def __init__(self, obs_dim=6, action_dim=2):
        super().__init__()
        self.normalizer = Normalizer([0.25, -0.125, 0.0, 0.125, 0.5, -0.375], [2.0, 1.75, 1.125, 0.875, 2.5, 2.5], 1.5)
        self.actor = Actor(obs_dim, action_dim)
        self.critic_1 = Critic(obs_dim, action_dim)
        self.critic_2 = Critic(obs_dim, action_dim)
        self.target_actor = TargetNetwork(1, obs_dim, 0, action_dim)
        self.target_critic_1 = TargetNetwork(2, obs_dim, action_dim, 1)
        self.target_critic_2 = TargetNetwork(3, obs_dim, action_dim, 1)

    @torch.no_grad()
    def target(self, reward, next_obs, done, noise):
        next_action = torch.tanh(self.target_actor(next_obs)) + noise.clamp(-NOISE_CLIP, NOISE_CLIP)
        next_action = next_action.clamp(-1.0, 1.0)
        next_q1 = self.target_critic_1(next_obs, next_action).squeeze(-1)
        next_q2 = self.target_critic_2(next_obs, next_action).squeeze(-1)
        return reward + GAMMA * (1.0 - done) * torch.minimum(next_q1, next_q2)

    def forward(self, obs, action, reward, next_obs, done, noise):
        obs, next_obs = self.normalizer(obs), self.normalizer(next_obs)
        target_q = self.target(reward, next_obs, done, noise)
        scaled = action / MAX_ACTION
        q1, q2 = self.critic_1(obs, scaled), self.critic_2(obs, scaled)
        pi = self.actor(obs)
        q_pi = self.critic_1(obs, pi)
        return {"target_q": target_q, "q1": q1, "q2": q2, "pi": pi, "q_pi": q_pi}


def critic_l2(model):
    kernels = [p for name, p in model.named_parameters() if "critic" in name and "fc" in name and p.ndim == 2]
    return sum(p.square().sum() for p in kernels) / 2


def loss(model, obs, action, reward, next_obs, done, noise, weights):
    out = model(obs, action, reward, next_obs, done, noise)
    td = F.smooth_l1_loss(out["q1"], out["target_q"], reduction="none")
    td = td + F.smooth_l1_loss(out["q2"], out["target_q"], reduction="none")
    critic_loss = (weights * td).mean() + 1e-2 * critic_l2(model)
    out["actor_loss"] = -out["q_pi"].mean() + 0.1 * out["pi"].square().mean()
    return critic_loss, out
