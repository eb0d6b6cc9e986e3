import math

import torch
from torch import nn
from torch.nn import functional as F


def layer(module, gain=math.sqrt(2)):
    nn.init.orthogonal_(module.weight, gain)
    nn.init.zeros_(module.bias)
    return module


class CnnActorCritic(nn.Module):
    def __init__(self, actions):
        super().__init__()
        self.feature = nn.Sequential(
            layer(nn.Conv2d(4, 8, 4, stride=2)), nn.ReLU(),
            layer(nn.Conv2d(8, 12, 3, stride=2)), nn.ReLU(),
            layer(nn.Conv2d(12, 12, 2)), nn.ReLU(),
            nn.Flatten(),
            layer(nn.Linear(108, 32)), nn.ReLU(),
            layer(nn.Linear(32, 28)), nn.ReLU(),
        )
        self.extra_actor = nn.Sequential(layer(nn.Linear(28, 28), 0.1), nn.ReLU())
        self.extra_critic = nn.Sequential(layer(nn.Linear(28, 28), 0.1), nn.ReLU())
        self.actor = layer(nn.Linear(28, actions), 0.01)
        self.critic_int = layer(nn.Linear(28, 1), 0.01)
        self.critic_ext = layer(nn.Linear(28, 1), 0.01)

    def forward(self, state):
        x = self.feature(state / 255)
        policy = self.actor(x + self.extra_actor(x))
        value = x + self.extra_critic(x)
        return policy, self.critic_int(value).squeeze(-1), self.critic_ext(value).squeeze(-1)


class RND(nn.Module):
    def __init__(self, features=20):
        super().__init__()

        def convolutions():
            layers = []
            for in_channels, out_channels, size, stride in ((1, 6, 4, 2), (6, 8, 3, 2), (8, 8, 2, 1)):
                layers += [layer(nn.Conv2d(in_channels, out_channels, size, stride)), nn.LeakyReLU(0.2)]
            return [*layers, nn.Flatten()]

        self.target = nn.Sequential(*convolutions(), layer(nn.Linear(72, features)))
        self.predictor = nn.Sequential(
            *convolutions(), layer(nn.Linear(72, 24)), nn.ReLU(), layer(nn.Linear(24, 24)), nn.ReLU(), layer(nn.Linear(24, features)))
        self.target.requires_grad_(False)

    def forward(self, following):
        following = following.clamp(-5, 5)
        return self.target(following), self.predictor(following)


class Agent(nn.Module):
    def __init__(self, actions=6):
        super().__init__()
        self.policy = CnnActorCritic(actions)
        self.rnd = RND()

    def forward(self, ob, next_ob):
        return (*self.policy(ob.permute(0, 3, 1, 2)), *self.rnd(next_ob.permute(0, 3, 1, 2)))


def loss(model, ob, next_ob, ac, adv, ret_int, ret_ext, nlp, update_mask):
    policy, value_int, value_ext, target, predicted = model(ob, next_ob)
    dist = torch.distributions.Categorical(logits=policy)
    ratio = torch.exp(dist.log_prob(ac.long()) + nlp)
    surrogate = torch.min(ratio * adv, ratio.clamp(0.9, 1.1) * adv)
    actor_loss = -surrogate.mean()
    critic_loss = 0.5 * F.mse_loss(value_int, ret_int) + 0.5 * F.mse_loss(value_ext, ret_ext)
    entropy = dist.entropy().mean()
    error = F.mse_loss(predicted, target.detach(), reduction="none").mean(-1)
    forward_loss = (error * update_mask).sum() / update_mask.sum().clamp(min=1)
    value = actor_loss + critic_loss - 0.01 * entropy + forward_loss
    return value, {"pdparam": policy, "int_rew": error, "pg_loss": actor_loss, "vf_loss": critic_loss, "entropy": entropy,
                   "aux_loss": forward_loss}
