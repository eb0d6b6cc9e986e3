"""Soft actor-critic: a squashed Gaussian actor, twin critics with frozen targets, and a learned temperature."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

LOG_STD_MIN, LOG_STD_MAX = -5, 2


class Actor(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden, act_limit):
        super().__init__()
        self.fc1 = nn.Linear(obs_dim, hidden[0])
        self.fc2 = nn.Linear(hidden[0], hidden[1])
        self.mean = nn.Linear(hidden[1], act_dim)
        self.log_std = nn.Linear(hidden[1], act_dim)
        self.act_limit = act_limit

    def forward(self, obs, noise):
        x = F.relu(self.fc1(obs))
        x = F.relu(self.fc2(x))
        mean = self.mean(x)
        log_std = torch.tanh(self.log_std(x))
        log_std = LOG_STD_MIN + 0.5 * (LOG_STD_MAX - LOG_STD_MIN) * (log_std + 1)
        std = log_std.exp()
        u = mean + std * noise
        # the original guards its division by the deviation
        z = (u - mean) / (std + 1e-8)
        log_prob = (-0.5 * z.pow(2) - log_std - 0.5 * math.log(2 * math.pi)).sum(-1)
        log_prob = log_prob - (2 * (math.log(2) - u - F.softplus(-2 * u))).sum(-1)
        return self.act_limit * torch.tanh(u), log_prob


class QNetwork(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden):
        super().__init__()
        self.fc1 = nn.Linear(obs_dim + act_dim, hidden[0])
        self.fc2 = nn.Linear(hidden[0], hidden[1])
        self.fc3 = nn.Linear(hidden[1], 1)

    def forward(self, obs, act):
        x = F.relu(self.fc1(torch.cat([obs, act], dim=-1)))
        x = F.relu(self.fc2(x))
        return self.fc3(x).squeeze(-1)


class TwinCritic(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden):
        super().__init__()
        self.qf1 = QNetwork(obs_dim, act_dim, hidden)
        self.qf2 = QNetwork(obs_dim, act_dim, hidden)

    def forward(self, obs, act):
        return self.qf1(obs, act), self.qf2(obs, act)


class Model(nn.Module):
    def __init__(self, obs_dim=11, act_dim=3, hidden=(32, 24), act_limit=1.5):
        super().__init__()
        self.actor = Actor(obs_dim, act_dim, hidden, act_limit)
        self.critic = TwinCritic(obs_dim, act_dim, hidden)
        self.critic_target = copy.deepcopy(self.critic).requires_grad_(False)
        self.log_alpha = nn.Parameter(torch.tensor(-1.0))
        self.target_entropy = -float(act_dim)

    def forward(self, obs, act, next_obs, noise, next_noise):
        q1, q2 = self.critic(obs, act)
        pi, logp_pi = self.actor(obs, noise)
        q_pi = torch.min(*self.critic(obs, pi))
        with torch.no_grad():
            next_pi, next_logp_pi = self.actor(next_obs, next_noise)
            next_q = torch.min(*self.critic_target(next_obs, next_pi))
            next_value = next_q - self.log_alpha.exp() * next_logp_pi
        alpha_loss = -(self.log_alpha * (logp_pi + self.target_entropy).detach()).mean()
        pi_loss = (self.log_alpha.exp().detach() * logp_pi - q_pi).mean()
        return q1, q2, pi, logp_pi, next_value, pi_loss, alpha_loss


def loss(model, obs, act, rew, next_obs, done, noise, next_noise, gamma=0.97):
    q1, q2, pi, logp_pi, next_value, pi_loss, alpha_loss = model(obs, act, next_obs, noise, next_noise)
    backup = rew + gamma * (1 - done) * next_value
    q_loss = 0.5 * F.mse_loss(q1, backup) + 0.5 * F.mse_loss(q2, backup)
    outputs = {"q1": q1, "q2": q2, "pi": pi, "logp_pi": logp_pi, "pi_loss": pi_loss, "alpha_loss": alpha_loss}
    return q_loss, outputs
