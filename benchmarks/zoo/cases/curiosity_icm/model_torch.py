"""A recurrent actor-critic with an intrinsic curiosity module beside it."""

import torch
from torch import nn
from torch.nn import functional as F


class Encoder(nn.Sequential):
    """[N, 2, 8, 8] to 16 features; the stride-2 convolutions pad on the right and at the bottom, as TensorFlow does."""

    def __init__(self, channels=(2, 8, 8, 16)):
        layers = []
        for before, after in zip(channels, channels[1:]):
            layers += [nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(before, after, 3, stride=2), nn.ELU()]
        super().__init__(*layers, nn.Flatten())


class ActorCritic(nn.Module):
    def __init__(self, features=16, hidden=16, n_actions=4):
        super().__init__()
        self.encoder = Encoder()
        self.rnn = nn.LSTM(features, hidden, batch_first=True)
        # The graph's cell has one bias: two that train would count twice in the norm that is clipped.
        # The frozen one is what the cell adds to its forget gate.
        self.rnn.bias_hh_l0.requires_grad_(False).zero_()[hidden:2 * hidden] = 1.0
        self.actor = nn.Linear(hidden, n_actions)
        self.critic = nn.Linear(hidden, 1)

    def forward(self, frames, h0, c0):
        x = self.encoder(frames.flatten(0, 1)).unflatten(0, frames.shape[:2])
        x, _ = self.rnn(x, (h0.unsqueeze(0), c0.unsqueeze(0)))
        return self.actor(x), self.critic(x).squeeze(-1)


class Curiosity(nn.Module):
    def __init__(self, features=16, hidden=24, n_actions=4):
        super().__init__()
        self.n_actions = n_actions
        self.encoder = Encoder()
        self.inverse_model = nn.Sequential(nn.Linear(2 * features, hidden), nn.ReLU(), nn.Linear(hidden, n_actions))
        self.forward_model = nn.Sequential(nn.Linear(features + n_actions, hidden), nn.ReLU(), nn.Linear(hidden, features))

    def forward(self, frames, actions):
        phi = self.encoder(frames.flatten(0, 1)).unflatten(0, frames.shape[:2])
        now, after = phi[:, :-1], phi[:, 1:]
        guess = self.inverse_model(torch.cat([now, after], dim=-1))
        taken = F.one_hot(actions, self.n_actions).to(phi.dtype)
        predicted = self.forward_model(torch.cat([now, taken], dim=-1))
        inverse_loss = F.cross_entropy(guess.flatten(0, 1), actions.flatten())
        forward_loss = 0.5 * (predicted - after).square().sum(dim=-1).mean()
        return inverse_loss, forward_loss


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.policy = ActorCritic()
        self.icm = Curiosity()

    def forward(self, frames, actions, h0, c0):
        frames = frames.permute(0, 1, 4, 2, 3)
        logits, values = self.policy(frames[:, :-1], h0, c0)
        inverse_loss, forward_loss = self.icm(frames, actions)
        return logits, values, inverse_loss, forward_loss


def loss(model, frames, actions, advantages, returns, c_in, h_in, beta=0.2, entropy_weight=0.01, icm_weight=10.0):
    actions = actions.long()
    logits, values, inverse_loss, forward_loss = model(frames, actions, h_in, c_in)
    log_probs = F.log_softmax(logits, dim=-1)
    chosen = log_probs.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
    policy_loss = -(chosen * advantages).sum()
    value_loss = 0.5 * (values - returns).square().sum()
    entropy = -(log_probs.exp() * log_probs).sum()
    total = policy_loss + 0.5 * value_loss - entropy_weight * entropy
    total = total + icm_weight * ((1 - beta) * inverse_loss + beta * forward_loss)
    return total, {
        "logits": logits.flatten(0, 1),
        "values": values.flatten(),
        "entropy": entropy,
        "invloss": inverse_loss,
        "forwardloss": forward_loss,
    }
