"""PointNetVLAD in small, and the optimizer it is trained with."""

import torch
from torch import nn
from torch.nn import functional as F


class STN3d(nn.Module):
    def __init__(self, num_points):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, (1, 3))
        self.conv2 = nn.Conv2d(16, 16, (1, 1))
        self.mp1 = nn.MaxPool2d((num_points, 1))
        self.fc = nn.Linear(16, 9)

    def forward(self, x):
        x = F.relu(self.conv1(x.unsqueeze(1)))
        x = self.mp1(F.relu(self.conv2(x))).flatten(1)
        return self.fc(x).view(-1, 3, 3) + torch.eye(3, dtype=x.dtype, device=x.device)


class PointNetfeat(nn.Module):
    def __init__(self, num_points, feature_size):
        super().__init__()
        self.stn = STN3d(num_points)
        self.conv1 = nn.Conv2d(1, 16, (1, 3))
        self.conv2 = nn.Conv2d(16, feature_size, (1, 1))

    def forward(self, x):
        trans = self.stn(x)
        moved = torch.matmul(x, trans)
        x = F.relu(self.conv1(moved.unsqueeze(1)))
        x = F.relu(self.conv2(x))
        return trans, moved, x.squeeze(3).transpose(1, 2)


class BatchNorm1d(nn.BatchNorm1d):
    """Keeps the biased batch variance in running_var, as the original does."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=0, unbiased=False)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)


def batch_norm(dim):
    return BatchNorm1d(dim, eps=1e-3, momentum=0.05)


class GatingContext(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.gating_weights = nn.Parameter(torch.randn(dim, dim) * dim ** -0.5)
        self.bn1 = batch_norm(dim)

    def forward(self, x):
        return x * torch.sigmoid(self.bn1(torch.matmul(x, self.gating_weights)))


class NetVLADLoupe(nn.Module):
    def __init__(self, feature_size, cluster_size, output_dim):
        super().__init__()
        scale = feature_size ** -0.5
        self.cluster_weights = nn.Parameter(torch.randn(feature_size, cluster_size) * scale)
        self.cluster_weights2 = nn.Parameter(torch.randn(1, feature_size, cluster_size) * scale)
        self.hidden1_weights = nn.Parameter(torch.randn(cluster_size * feature_size, output_dim) * cluster_size ** -0.5)
        self.bn1 = batch_norm(cluster_size)
        self.bn2 = batch_norm(output_dim)
        self.context_gating = GatingContext(output_dim)

    def forward(self, x):
        activation = torch.matmul(x, self.cluster_weights)
        activation = self.bn1(activation.flatten(0, 1)).view_as(activation)
        activation = F.softmax(activation, dim=-1)
        a = activation.sum(dim=1, keepdim=True) * self.cluster_weights2
        vlad = torch.matmul(x.transpose(1, 2), activation) - a
        vlad = F.normalize(vlad, dim=1)
        vlad = F.normalize(vlad.flatten(1), dim=1)
        output = self.context_gating(self.bn2(torch.matmul(vlad, self.hidden1_weights)))
        return vlad, F.normalize(output, dim=1)


class Model(nn.Module):
    def __init__(self, num_points=20, feature_size=24, cluster_size=6, output_dim=16):
        super().__init__()
        self.point_net = PointNetfeat(num_points, feature_size)
        self.net_vlad = NetVLADLoupe(feature_size, cluster_size, output_dim)

    def forward(self, clouds):
        trans, moved, features = self.point_net(clouds.flatten(0, 1))
        vlad, output = self.net_vlad(features)
        output = output.view(*clouds.shape[:2], -1)
        return {"transform": trans, "transformed": moved, "features": features, "vlad": vlad, "output": output}


def lazy_quadruplet_loss(query, positives, negatives, other_negative, m1=0.5, m2=0.2):
    best_positive = (positives - query).pow(2).sum(dim=2).amin(dim=1, keepdim=True)
    triplet = F.relu(m1 + best_positive - (negatives - query).pow(2).sum(dim=2)).amax(dim=1)
    second = F.relu(m2 + best_positive - (negatives - other_negative).pow(2).sum(dim=2)).amax(dim=1)
    return triplet.mean(), second.mean()


def loss(model, clouds):
    out = model(clouds)
    query, positives, negatives, other_negative = torch.split(out["output"], [1, 2, 3, 1], dim=1)
    out["triplet_loss"], out["second_loss"] = lazy_quadruplet_loss(query, positives, negatives, other_negative)
    return out["triplet_loss"] + out["second_loss"], out


class RMSpropTF(torch.optim.Optimizer):
    """RMSprop as TensorFlow has it: squares begin with one, epsilon under the root, the rate within the momentum."""

    def __init__(self, params, lr, alpha=0.9, momentum=0.9, eps=1e-10):
        super().__init__(params, dict(lr=lr, alpha=alpha, momentum=momentum, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["square_avg"] = torch.ones_like(p)
                    state["momentum_buffer"] = torch.zeros_like(p)
                square_avg, buf = state["square_avg"], state["momentum_buffer"]
                square_avg.add_(p.grad.pow(2) - square_avg, alpha=1.0 - group["alpha"])
                avg = square_avg.add(group["eps"]).sqrt_()
                buf.mul_(group["momentum"]).addcdiv_(p.grad, avg, value=group["lr"])
                p.sub_(buf)


def optimizer(model):
    return RMSpropTF(model.parameters(), lr=0.004, alpha=0.9, momentum=0.9, eps=0.1)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.7)
