"""PointNet classification with Conv1d over the points."""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm1d(nn.BatchNorm1d):
    """For [N, C] and [N, C, L]; the running variance is the biased one, as TensorFlow's own-made batch norms keep it."""

    def forward(self, x):
        if self.training:
            dims = [0] if x.dim() == 2 else [0, 2]
            with torch.no_grad():
                self.running_mean += self.momentum * (x.mean(dims) - self.running_mean)
                self.running_var += self.momentum * (x.var(dims, correction=0) - self.running_var)
        mean, var = (None, None) if self.training else (self.running_mean, self.running_var)
        return F.batch_norm(x, mean, var, self.weight, self.bias, self.training, 0.0, self.eps)


def bn(channels):
    return BatchNorm1d(channels, eps=1e-3, momentum=0.5)


class TNet(nn.Module):
    """The 3x3 matrix that turns the cloud upright."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(3, 12, 1)
        self.conv2 = nn.Conv1d(12, 24, 1)
        self.fc1 = nn.Linear(24, 16)
        self.fc2 = nn.Linear(16, 9)
        self.bn1, self.bn2, self.bn3 = bn(12), bn(24), bn(16)
        nn.init.zeros_(self.fc2.weight)
        nn.init.zeros_(self.fc2.bias)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = F.relu(self.bn3(self.fc1(x.amax(2))))
        return self.fc2(x).view(-1, 3, 3) + torch.eye(3, dtype=x.dtype, device=x.device)


class Model(nn.Module):
    def __init__(self, num_classes=4):
        super().__init__()
        self.tnet = TNet()
        self.mlp = nn.Sequential(
            nn.Conv1d(3, 16, 1), bn(16), nn.ReLU(),
            nn.Conv1d(16, 16, 1), bn(16), nn.ReLU(),
            nn.Conv1d(16, 48, 1), bn(48), nn.ReLU(),
        )
        self.fc1 = nn.Linear(48, 24)
        self.bn1 = bn(24)
        self.fc2 = nn.Linear(24, num_classes)

    def forward(self, points):
        transform = self.tnet(points.transpose(1, 2))
        points = torch.bmm(points, transform)
        feature = torch.max(self.mlp(points.transpose(1, 2)), dim=2).values
        logits = self.fc2(F.relu(self.bn1(self.fc1(feature))))
        return transform, feature, logits


def orthogonality(transform):
    eye = torch.eye(3, dtype=transform.dtype, device=transform.device)
    return (transform @ transform.transpose(1, 2) - eye).pow(2).sum() / 2


def loss(model, pointclouds, labels):
    transform, feature, logits = model(pointclouds)
    classify = F.cross_entropy(logits, labels.long())
    mat = orthogonality(transform)
    # every kernel but the transform's own
    kernels = [m.weight for name, m in getattr(model, "module", model).named_modules()
               if isinstance(m, (nn.Conv1d, nn.Linear)) and name != "tnet.fc2"]
    decay = 0.001 * sum(w.pow(2).sum() for w in kernels) / 2
    return classify + 0.001 * mat + decay, {"transform": transform, "feature": feature, "logits": logits,
                                            "classify_loss": classify, "mat_loss": mat}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
