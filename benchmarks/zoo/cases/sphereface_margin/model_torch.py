"""SphereFace in torch, with its own training step for DistributedDataParallel."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Down(nn.Module):
    """Halves the image; padded on the right and bottom, where the original's SAME pads an even size."""

    def __init__(self, inplanes, planes):
        super().__init__()
        self.conv = nn.Conv2d(inplanes, planes, 3, stride=2)
        self.act = nn.PReLU(planes)

    def forward(self, x):
        return self.act(self.conv(F.pad(x, (0, 1, 0, 1))))


class Residual(nn.Module):
    def __init__(self, planes):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(planes, planes, 3, padding=1, bias=False), nn.PReLU(planes),
            nn.Conv2d(planes, planes, 3, padding=1, bias=False), nn.PReLU(planes),
        )

    def forward(self, x):
        return x + self.body(x)


class AngleLinear(nn.Module):
    """Logits |x| cos(t); of the own class, blended with |x| psi(t), psi(t) = (-1)^k cos(4t) - 2k."""

    def __init__(self, in_features, num_classes):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_classes, in_features))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x, labels, lamb):
        logits = F.linear(x, F.normalize(self.weight, dim=1))
        length = x.norm(dim=1)
        own = logits.gather(1, labels[:, None]).squeeze(1)
        cos = own / length
        cos_m = 8 * cos ** 4 - 8 * cos ** 2 + 1
        with torch.no_grad():
            k = (4 * cos.clamp(-1, 1).acos() / math.pi).floor()
            sign = 1 - 2 * (k % 2)
        psi = sign * cos_m - 2 * k
        blended = (lamb * own + psi * length) / (1 + lamb)
        return logits.scatter(1, labels[:, None], blended[:, None])


class Model(nn.Module):
    def __init__(self, num_classes=10, embedding=16):
        super().__init__()
        self.layer1 = nn.Sequential(Down(3, 8), Residual(8))
        self.layer2 = nn.Sequential(Down(8, 16), Residual(16))
        self.embed = nn.Linear(16 * 3 * 3, embedding)
        self.classifier = AngleLinear(embedding, num_classes)

    def forward(self, images, labels, lamb):
        stage1 = self.layer1(images)
        stage2 = self.layer2(stage1)
        features = self.embed(stage2.flatten(1))
        return stage1, stage2, features, self.classifier(features, labels, lamb)


def loss(model, images, identities, annealing):
    labels = identities.long()
    stage1, stage2, features, logits = model(images.permute(0, 3, 1, 2), labels, annealing)
    identity_loss = F.cross_entropy(logits, labels)
    decay = sum(p.pow(2).sum() for p in model.parameters() if p.ndim > 1)
    total = identity_loss + 0.5 * 5e-4 * decay
    return total, {"stage1": stage1, "stage2": stage2, "features": features, "logits": logits,
                   "identity_loss": identity_loss}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=10, power=1.0)


def clip_each(parameters, limit):
    """Every gradient by its own norm, as tf.clip_by_norm does."""
    for p in parameters:
        p.grad.mul_(limit / p.grad.norm().clamp(min=limit))


def step(model, optimizer, scheduler, images, identities, annealing):
    optimizer.zero_grad()
    total, outputs = loss(model, images, identities, annealing)
    total.backward()
    clip_each(model.parameters(), 0.2)
    optimizer.step()
    scheduler.step()
    return total, outputs
