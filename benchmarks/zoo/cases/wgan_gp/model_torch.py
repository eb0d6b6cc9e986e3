"""WGAN-GP; both costs of one batch are returned, each player minimises its own."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.generator = nn.Sequential(
            nn.Linear(4, dim), nn.ReLU(), nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 2)
        )
        self.critic = nn.Sequential(
            nn.Linear(2, dim),
            nn.Tanh(),
            nn.Linear(dim, dim),
            nn.LeakyReLU(0.2),
            nn.Linear(dim, dim),
            nn.LeakyReLU(0.2),
            nn.Linear(dim, 1),
        )

    def forward(self, real, noise, alpha):
        fake = self.generator(noise)
        score_real = self.critic(real).squeeze(1)
        score_fake = self.critic(fake).squeeze(1)
        between = alpha * real + (1 - alpha) * fake
        scores = self.critic(between)
        (gradients,) = torch.autograd.grad(scores.sum(), between, create_graph=True)
        return fake, score_real, score_fake, gradients.norm(2, dim=1)


def loss(model, real_data, noise, alpha):
    fake, score_real, score_fake, slopes = model(real_data, noise, alpha)
    critic_loss = score_fake.mean() - score_real.mean() + 10.0 * ((slopes - 1) ** 2).mean()
    generator_loss = -score_fake.mean()
    return critic_loss, {
        "gen_cost": generator_loss,
        "fake_data": fake,
        "disc_fake": score_fake,
        "disc_real": score_real,
        "slopes": slopes,
    }
