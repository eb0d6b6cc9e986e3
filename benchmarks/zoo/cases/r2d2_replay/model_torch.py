import copy

import torch
from torch import nn
from torch.nn import functional as F

ACTIONS = 4
BURN_IN, N_STEP, GAMMA = 3, 2, 0.97
EPS = 1e-2


def squash(x):
    return x.sign() * ((x.abs() + 1).sqrt() - 1) + EPS * x


def unsquash(x):
    return x.sign() * ((((1 + 4 * EPS * (x.abs() + 1 + EPS)).sqrt() - 1) / (2 * EPS)).square() - 1)


class Torso(nn.Module):
    def __init__(self, channels=2, features=24):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 8, kernel_size=4, stride=2)
        self.conv2 = nn.Conv2d(8, 12, kernel_size=3)
        self.fc = nn.Linear(12 * 2 * 2, features)

    def forward(self, frames):
        x = F.relu(self.conv1(frames))
        x = F.relu(self.conv2(x))
        return F.relu(self.fc(x.flatten(1)))


class DuelingHead(nn.Module):
    def __init__(self, units, hidden=14):
        super().__init__()
        self.value = nn.Sequential(nn.Linear(units, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.advantage = nn.Sequential(nn.Linear(units, hidden), nn.ReLU(), nn.Linear(hidden, ACTIONS))

    def forward(self, x):
        advantage = self.advantage(x)
        return self.value(x) + advantage - advantage.mean(dim=-1, keepdim=True)


class RecurrentQ(nn.Module):
    def __init__(self, features=24, units=18):
        super().__init__()
        self.torso = Torso(features=features)
        self.lstm = nn.LSTMCell(features + ACTIONS + 1, units)
        self.head = DuelingHead(units)
        # one bias is trained; the other one holds the constant that is added to the forget gate
        self.lstm.bias_hh.requires_grad_(False)
        nn.init.zeros_(self.lstm.bias_hh)
        nn.init.constant_(self.lstm.bias_hh[units:2 * units], 1.0)

    def forward(self, obs, prev_action, prev_reward, done, h, c):
        batch, length = obs.shape[:2]
        frames = obs.flatten(0, 1).permute(0, 3, 1, 2) / 255
        features = self.torso(frames).view(batch, length, -1)
        x = torch.cat([features, F.one_hot(prev_action, ACTIONS).to(obs.dtype), prev_reward.unsqueeze(-1)], dim=-1)
        outputs = []
        for t in range(length):
            if t == BURN_IN:
                h, c = h.detach(), c.detach()
            if t > 0:
                alive = 1 - done[:, t - 1:t]
                h, c = h * alive, c * alive
            h, c = self.lstm(x[:, t], (h, c))
            outputs.append(h)
        return self.head(torch.stack(outputs[BURN_IN:], dim=1))


class Model(nn.Module):
    """The network that learns, and the older copy of it that gives the targets."""

    def __init__(self):
        super().__init__()
        self.online = RecurrentQ()
        self.target = copy.deepcopy(self.online).requires_grad_(False)

    def forward(self, *sequence):
        return self.online(*sequence), self.target(*sequence)


def loss(model, obs, prev_action, prev_reward, action, reward, done, initial_h, initial_c, weight):
    q, target_q = model(obs, prev_action.long(), prev_reward, done, initial_h, initial_c)
    action, reward, done = action[:, BURN_IN:].long(), reward[:, BURN_IN:], done[:, BURN_IN:]
    steps = q.size(1) - N_STEP

    best = q.argmax(dim=-1, keepdim=True)
    returns = unsquash(target_q.gather(-1, best).squeeze(-1))[:, N_STEP:]
    for i in reversed(range(N_STEP)):
        returns = reward[:, i:i + steps] + GAMMA * (1 - done[:, i:i + steps]) * returns
    goal = squash(returns).detach()

    taken = q.gather(-1, action.unsqueeze(-1)).squeeze(-1)[:, :steps]
    error = goal - taken
    value = (weight * error.square().sum(1) / 2).mean()
    return value, {"q": q, "target_q": target_q, "mean_abs_td": error.abs().mean()}
