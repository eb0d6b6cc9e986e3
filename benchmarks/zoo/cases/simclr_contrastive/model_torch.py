"""SimCLR: encoder, projection head and NT-Xent over the two views of a rank's own examples."""

import torch
from torch import nn
from torch.nn import functional as F


def _moving(norm, x):
    """Moves the running statistics, with the biased variance as the original keeps it."""
    axes = (0,) if x.dim() == 2 else (0, 2, 3)
    with torch.no_grad():
        norm.running_mean.lerp_(x.mean(axes), norm.momentum)
        norm.running_var.lerp_(x.var(axes, unbiased=False), norm.momentum)


class BatchNorm2d(nn.BatchNorm2d):
    def forward(self, x):
        if not self.training:
            return super().forward(x)
        _moving(self, x)
        return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)


class BatchNorm1d(nn.BatchNorm1d):
    def forward(self, x):
        if not self.training:
            return super().forward(x)
        _moving(self, x)
        return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)


class BatchNorm1dNoBias(BatchNorm1d):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.bias.requires_grad_(False)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 12, 3, padding=1, bias=False)
        self.bn1 = BatchNorm2d(12)
        self.conv2 = nn.Conv2d(12, 20, 3, stride=2, padding=1, bias=False)
        self.bn2 = BatchNorm2d(20)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        return x.mean(dim=(2, 3))


class ProjectionHead(nn.Module):
    def __init__(self, in_features, hidden_features, out_features):
        super().__init__()
        self.fc1 = nn.Linear(in_features, hidden_features, bias=False)
        self.bn1 = BatchNorm1d(hidden_features)
        self.fc2 = nn.Linear(hidden_features, out_features, bias=False)
        self.bn2 = BatchNorm1dNoBias(out_features)

    def forward(self, h):
        z = self.fc2(F.relu(self.bn1(self.fc1(h))))
        z = self.bn2(z)
        return F.normalize(z, dim=1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.projector = ProjectionHead(20, 32, 16)

    def forward(self, first, second):
        h = self.encoder(torch.cat([first, second], dim=0))
        return h, self.projector(h)


def nt_xent(z, temperature):
    """Cross entropy of finding an example's other view among all other views, both ways."""
    first, second = z.chunk(2)
    n = len(first)
    target = torch.arange(n, device=z.device)
    diagonal = torch.eye(n, dtype=torch.bool, device=z.device)
    cross = first @ second.t() / temperature
    within_first = (first @ first.t() / temperature).masked_fill(diagonal, float("-inf"))
    within_second = (second @ second.t() / temperature).masked_fill(diagonal, float("-inf"))
    loss_first = F.cross_entropy(torch.cat([cross, within_first], dim=1), target)
    loss_second = F.cross_entropy(torch.cat([cross.t(), within_second], dim=1), target)
    return loss_first + loss_second, cross


def l2_penalty(model):
    return 0.5 * sum(p.pow(2).sum() for p in model.parameters() if p.dim() > 1)


def loss(model, features):
    views = features.permute(0, 3, 1, 2).contiguous()
    first, second = views[:, :3], views[:, 3:]
    h, z = model(first, second)
    contrast, logits = nt_xent(z, temperature=0.5)
    outputs = {"hiddens": h, "projected": z, "logits_ab": logits, "contrast_loss": contrast}
    return contrast + 1e-3 * l2_penalty(model), outputs


def optimizer(model):
    trained = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.SGD(trained, lr=0.3, momentum=0.9, nesterov=True)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=5)
