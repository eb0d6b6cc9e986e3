"""The port of two_optimizers.py: one module of both networks, and a loss for each of the optimizers."""

from torch import nn
from torch.nn.functional import softplus


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = nn.Linear(2, 3, bias=False)
        self.discriminator = nn.Linear(3, 1, bias=False)

    def forward(self, noise, real=None):
        fake = self.discriminator(self.generator(noise))
        return fake if real is None else (fake, self.discriminator(real))


def d_loss(model, real, noise):
    fake, true = model(noise, real)
    return (softplus(fake) + softplus(-true)).mean()


def g_loss(model, noise):
    return softplus(-model(noise)).mean()


def doubled_g_loss(model, noise):
    return 2 * g_loss(model, noise)
