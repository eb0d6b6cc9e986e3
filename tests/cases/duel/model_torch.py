"""The port."""

from torch import nn
from torch.nn.functional import softplus


class Model(nn.Module):
    """Noise ``[shard, 3]`` and points ``[shard, 2]`` to made points, and what is said of both."""

    def __init__(self):
        super().__init__()
        self.generator = nn.Linear(3, 2)
        self.discriminator = nn.Linear(2, 1)

    def forward(self, noise, points):
        made = self.generator(noise)
        return made, self.discriminator(points), self.discriminator(made)


def loss(model, noise, points):
    """Returns the generator's loss, and as `fooled` the discriminator's."""
    made, real, fake = model(noise, points)
    fooled = softplus(-real).mean() + softplus(fake).mean()
    return softplus(-fake).mean(), {"made": made, "fooled": fooled}


def quartered(model, noise, points):
    """Returns a quarter of both losses."""
    first, outputs = loss(model, noise, points)
    return first / 4, {**outputs, "fooled": outputs["fooled"] / 4}


def quartered_alone(model, noise, points):
    """Returns a quarter of the generator's loss alone."""
    first, outputs = loss(model, noise, points)
    return first / 4, outputs


def fooled_by_half(model, noise, points):
    """Counts half of what the discriminator says of made points."""
    made, real, fake = model(noise, points)
    fooled = softplus(-real).mean() + 0.5 * softplus(fake).mean()
    return softplus(-fake).mean(), {"made": made, "fooled": fooled}
