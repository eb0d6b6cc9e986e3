"""MuZero's networks and its unrolled loss."""

import torch
from torch import nn
from torch.nn import functional as F

ACTIONS, SUPPORT = 6, 5
VALUE_LOSS_WEIGHT, WEIGHT_DECAY = 0.25, 1e-3
LEARNING_RATE, DECAY_RATE, DECAY_STEPS = 0.02, 0.5, 2


def scale_gradient(x, scale):
    return x * scale + x.detach() * (1 - scale)


def scalar_to_support(x, size=SUPPORT):
    """Transforms values and spreads each over the two nearest atoms."""
    x = torch.sign(x) * (torch.sqrt(torch.abs(x) + 1) - 1) + 0.001 * x
    x = x.clamp(-size, size)
    floor = x.floor()
    rest = (x - floor).unsqueeze(-1)
    index = (floor.long() + size).unsqueeze(-1)
    atoms = x.new_zeros(*x.shape, 2 * size + 1)
    atoms.scatter_(-1, index, 1 - rest)
    atoms.scatter_add_(-1, (index + 1).clamp(max=2 * size), rest)
    return atoms


class ResidualBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        out = self.conv2(F.relu(self.conv1(x)))
        return F.relu_(out + x)


class MinMax(nn.Module):
    def forward(self, state):
        low = state.amin(dim=(2, 3), keepdim=True)
        scale = state.amax(dim=(2, 3), keepdim=True) - low
        scale = torch.where(scale < 1e-5, scale + 1e-5, scale)
        return (state - low) / scale


class Representation(nn.Module):
    def __init__(self, planes, channels):
        super().__init__()
        self.conv = nn.Conv2d(planes, channels, 3, padding=1)
        self.block = ResidualBlock(channels)

    def forward(self, x):
        return self.block(F.relu(self.conv(x)))


def head(channels, board, units, hidden=()):
    layers = [nn.Conv2d(channels, 2, 1), nn.ReLU(), nn.Flatten()]
    width = 2 * board
    for size in hidden:
        layers += [nn.Linear(width, size), nn.ELU()]
        width = size
    return nn.Sequential(*layers, nn.Linear(width, units))


class Dynamics(nn.Module):
    def __init__(self, channels, board, atoms):
        super().__init__()
        self.conv = nn.Conv2d(channels + 1, channels, 3, padding=1)
        self.block = ResidualBlock(channels)
        self.reward = head(channels, board, atoms, (12,))

    def forward(self, state, action):
        plane = (action.to(state.dtype) / ACTIONS).view(-1, 1, 1, 1).expand(-1, -1, *state.shape[2:])
        x = self.block(F.relu(self.conv(torch.cat([state, plane], dim=1))))
        return x, self.reward(x)


class Prediction(nn.Module):
    def __init__(self, channels, board, atoms):
        super().__init__()
        self.block = ResidualBlock(channels)
        self.policy = head(channels, board, ACTIONS)
        self.value = head(channels, board, atoms, (12,))

    def forward(self, state):
        x = self.block(state)
        return self.policy(x), self.value(x)


class MuZeroNetwork(nn.Module):
    def __init__(self, planes=3, size=5, channels=8):
        super().__init__()
        atoms = 2 * SUPPORT + 1
        self.representation = Representation(planes, channels)
        self.dynamics = Dynamics(channels, size * size, atoms)
        self.prediction = Prediction(channels, size * size, atoms)
        self.normalise = MinMax()

    def forward(self, observation, actions):
        state = self.normalise(self.representation(observation))
        policy, value = self.prediction(state)
        policies, values, rewards = [policy], [value], []
        for action in actions.unbind(1):
            raw, reward = self.dynamics(state, action)
            state = self.normalise(raw)
            policy, value = self.prediction(state)
            state = scale_gradient(state, 0.5)
            policies.append(policy)
            values.append(value)
            rewards.append(reward)
        return torch.stack(policies, 1), torch.stack(values, 1), torch.stack(rewards, 1), state


def cross_entropy(logits, target):
    return -(target * F.log_softmax(logits, dim=-1)).sum(-1)


def unrolled(losses, first):
    """Sums the losses of the steps; those of recurrent steps give their share of the gradient."""
    recurrent = losses[:, 1:] if first else losses
    total = scale_gradient(recurrent, 1 / recurrent.size(1)).sum(1)
    return total + losses[:, 0] if first else total


def loss(model, observation, actions, target_value, target_reward, target_policy, weight):
    policy, value, reward, state = model(observation.permute(0, 3, 1, 2), actions)
    value_loss = unrolled(cross_entropy(value, scalar_to_support(target_value)), first=True)
    policy_loss = unrolled(cross_entropy(policy, target_policy), first=True)
    reward_loss = unrolled(cross_entropy(reward, scalar_to_support(target_reward)), first=False)
    total = (weight * (VALUE_LOSS_WEIGHT * value_loss + reward_loss + policy_loss)).mean()
    total = total + WEIGHT_DECAY * sum(p.square().sum() for p in model.parameters()) / 2
    return total, {"policy": policy, "value": value, "reward": reward, "state": state, "value_loss": value_loss.mean(),
                   "policy_loss": policy_loss.mean(), "reward_loss": reward_loss.mean()}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=DECAY_RATE ** (1 / DECAY_STEPS))


def step(model, optimizer, scheduler, **batch):
    optimizer.zero_grad()
    total, outputs = loss(model, **batch)
    total.backward()
    optimizer.step()
    scheduler.step()
    return total, outputs
