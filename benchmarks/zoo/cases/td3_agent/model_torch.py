"""TD3: actor, twin critics and their frozen target copies."""

import copy

import torch
from torch import nn
from torch.nn import functional as F


def mlp(sizes):
    layers = []
    for n_in, n_out in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(n_in, n_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Actor(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden_sizes, act_limit):
        super().__init__()
        self.net = mlp([obs_dim, *hidden_sizes, act_dim])
        self.act_limit = act_limit

    def forward(self, obs):
        return self.act_limit * torch.tanh(self.net(obs))


class Critic(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden_sizes):
        super().__init__()
        self.net = mlp([obs_dim + act_dim, *hidden_sizes, 1])

    def forward(self, obs, act):
        return self.net(torch.cat([obs, act], dim=-1)).squeeze(-1)


class ActorCritic(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden_sizes, act_limit):
        super().__init__()
        self.pi = Actor(obs_dim, act_dim, hidden_sizes, act_limit)
        self.q1 = Critic(obs_dim, act_dim, hidden_sizes)
        self.q2 = Critic(obs_dim, act_dim, hidden_sizes)


class TargetValue(nn.Module):
    """The smaller of both critics' values of the smoothed policy."""

    def __init__(self, actor_critic, noise_clip):
        super().__init__()
        self.ac = copy.deepcopy(actor_critic).requires_grad_(False)
        self.noise_clip = noise_clip

    def forward(self, obs, noise):
        act_limit = self.ac.pi.act_limit
        noise = noise.clamp(-self.noise_clip, self.noise_clip)
        act = (self.ac.pi(obs) + noise).clamp(-act_limit, act_limit)
        return torch.minimum(self.ac.q1(obs, act), self.ac.q2(obs, act))


class Model(nn.Module):
    def __init__(self, obs_dim=11, act_dim=3, hidden_sizes=(32, 28), act_limit=1.5, gamma=0.97, noise_clip=0.5):
        super().__init__()
        self.gamma = gamma
        self.ac = ActorCritic(obs_dim, act_dim, hidden_sizes, act_limit)
        self.target = TargetValue(self.ac, noise_clip)

    def forward(self, obs, act, rew, obs2, done, target_noise):
        with torch.no_grad():
            backup = rew + self.gamma * (1 - done) * self.target(obs2, target_noise)
        pi = self.ac.pi(obs)
        q1, q2 = self.ac.q1(obs, act), self.ac.q2(obs, act)
        return {"pi": pi, "q1": q1, "q2": q2, "q1_pi": self.ac.q1(obs, pi), "backup": backup}


def loss(model, obs, act, rew, obs2, done, target_noise, policy_mask):
    out = model(obs, act, rew, obs2, done, target_noise)
    # the policy moves in the updates that the mask says
    out["pi_loss"] = -(policy_mask * out["q1_pi"]).mean()
    return F.mse_loss(out["q1"], out["backup"]) + F.mse_loss(out["q2"], out["backup"]), out
