import math

import torch
from torch import nn
from torch.nn import functional as F

DIPOLE_WEIGHT = 0.2
WEIGHT_DECAY = 1e-3


class ShiftedSoftplus(nn.Module):
    def forward(self, x):
        return F.softplus(x) - math.log(2)


class GaussianSmearing(nn.Module):
    def __init__(self, cutoff, count, gamma):
        super().__init__()
        self.gamma = gamma
        self.register_buffer("centers", torch.arange(count) * (cutoff / (count - 1)))

    def forward(self, distance):
        return torch.exp(-self.gamma * (distance.unsqueeze(-1) - self.centers).square())


class CosineCutoff(nn.Module):
    def __init__(self, cutoff):
        super().__init__()
        self.cutoff = cutoff

    def forward(self, distance):
        smooth = 0.5 * (1 + torch.cos(math.pi * distance / self.cutoff))
        return torch.where(distance < self.cutoff, smooth, torch.zeros_like(smooth))


class CFConv(nn.Module):
    """Sums the neighbours' features, each multiplied by a filter that a network makes of its distance."""

    def __init__(self, features, filters, gaussians):
        super().__init__()
        self.filter = nn.Sequential(nn.Linear(gaussians, filters), ShiftedSoftplus(), nn.Linear(filters, filters), ShiftedSoftplus())
        self.enter = nn.Linear(features, filters, bias=False)
        self.leave = nn.Linear(filters, features)

    def forward(self, x, expanded, window):
        weights = self.filter(expanded) * window.unsqueeze(-1)
        neighbours = self.enter(x).unsqueeze(1)
        return self.leave((neighbours * weights).sum(dim=2))


class Interaction(nn.Module):
    def __init__(self, features, filters, gaussians):
        super().__init__()
        self.conv = CFConv(features, filters, gaussians)
        self.act = ShiftedSoftplus()
        self.linear = nn.Linear(features, features)

    def forward(self, x, expanded, window):
        return self.linear(self.act(self.conv(x, expanded, window)))


def head(features, bias=True):
    return nn.Sequential(nn.Linear(features, features // 2), ShiftedSoftplus(), nn.Linear(features // 2, 1, bias=bias), nn.Flatten(1))


class Model(nn.Module):
    def __init__(self, features=14, filters=12, interactions=2, gaussians=9, cutoff=4.0, mean=-0.25, std=0.75):
        super().__init__()
        self.mean, self.std = mean, std
        self.embedding = nn.Embedding(10, features)
        self.smearing = GaussianSmearing(cutoff, gaussians, gamma=3.0)
        self.cutoff = CosineCutoff(cutoff)
        self.interactions = nn.ModuleList(Interaction(features, filters, gaussians) for _ in range(interactions))
        self.energy = head(features)
        self.charge = head(features, bias=False)
        single = torch.zeros(10)
        single[[1, 6, 7, 8]] = torch.tensor([-0.5, -1.75, -2.25, -3.5])
        self.register_buffer("single_atoms", single)

    def forward(self, numbers, positions):
        valid = numbers > 0
        count = valid.sum(dim=1)
        pairs = valid.unsqueeze(1) & valid.unsqueeze(2)
        pairs = pairs & ~torch.eye(numbers.size(1), dtype=torch.bool, device=numbers.device)
        offsets = positions.unsqueeze(1) - positions.unsqueeze(2)
        distance = offsets.square().sum(dim=-1).masked_fill(~pairs, 1).sqrt()
        expanded = self.smearing(distance)
        window = self.cutoff(distance) * pairs
        x = self.embedding(numbers)
        for block in self.interactions:
            x = x + block(x, expanded, window)

        per_atom = self.energy(x) * self.std + self.mean + self.single_atoms[numbers]
        energy = (per_atom * valid).sum(dim=1)

        charge = self.charge(x) * valid
        charge = (charge - charge.sum(dim=1, keepdim=True) / count.unsqueeze(1)) * valid
        moment = torch.einsum("ba,bad->bd", charge, positions)
        return x, charge, energy, (moment.square().sum(dim=1) + 1e-8).sqrt(), count


def decay(model):
    return sum(layer.weight.square().sum() / 2 for layer in model.modules() if isinstance(layer, nn.Linear))


def loss(model, numbers, positions, energy, dipole):
    x, charge, predicted, moment, count = model(numbers.long(), positions)
    value = ((predicted - energy) / count).square().mean() + DIPOLE_WEIGHT * F.l1_loss(moment, dipole)
    if model.training:
        value = value + WEIGHT_DECAY * decay(model)
    return value, {"atoms": x, "charges": charge, "E": predicted, "mu": moment, "E_mae": F.l1_loss(predicted, energy)}
