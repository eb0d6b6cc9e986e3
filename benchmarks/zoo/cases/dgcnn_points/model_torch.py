"""DGCNN classifier: EdgeConv on the k nearest neighbours, found anew in every layer's feature space."""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm(nn.modules.batchnorm._BatchNorm):
    """Batch norm over all axes but the second, whose running_var keeps the biased variance."""

    def _check_input_dim(self, x):
        if x.dim() < 2:
            raise ValueError("expected at least two axes")

    def forward(self, x):
        self._check_input_dim(x)
        if not self.training:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)
        axes = [axis for axis in range(x.dim()) if axis != 1]
        with torch.no_grad():
            variance, mean = torch.var_mean(x, dim=axes, unbiased=False)
            self.running_mean.mul_(1 - self.momentum).add_(mean, alpha=self.momentum)
            self.running_var.mul_(1 - self.momentum).add_(variance, alpha=self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)


def knn(x, k):
    """Indices [batch, points, k] of the nearest points of x, [batch, channels, points]."""
    inner = 2 * torch.matmul(x.transpose(2, 1), x)
    squared = x.pow(2).sum(dim=1, keepdim=True)
    negative_distance = inner - squared - squared.transpose(2, 1)
    return negative_distance.topk(k, dim=-1)[1]


def get_graph_feature(x, k):
    """Edge features [batch, 2 * channels, points, k]."""
    batch_size, channels, num_points = x.shape
    idx = knn(x, k)
    idx_base = torch.arange(batch_size, device=x.device).view(-1, 1, 1) * num_points
    idx = (idx + idx_base).view(-1)
    x = x.transpose(2, 1).contiguous()
    neighbours = x.view(batch_size * num_points, channels)[idx].view(batch_size, num_points, k, channels)
    centre = x.unsqueeze(2).expand(-1, -1, k, -1)
    edges = torch.cat((centre, neighbours - centre), dim=3)
    return edges.permute(0, 3, 1, 2).contiguous()


class EdgeConv(nn.Module):
    def __init__(self, in_channels, out_channels, k):
        super().__init__()
        self.k = k
        self.conv = nn.Sequential(
            nn.Conv2d(2 * in_channels, out_channels, kernel_size=1),
            BatchNorm(out_channels, eps=1e-3, momentum=0.1),
            nn.ReLU(),
        )

    def forward(self, x):
        edges = get_graph_feature(x, self.k)
        return self.conv(edges).max(dim=-1)[0]


class Model(nn.Module):
    def __init__(self, num_classes=7, k=5):
        super().__init__()
        self.edge_conv1 = EdgeConv(3, 16, k)
        self.edge_conv2 = EdgeConv(16, 24, k)
        self.conv5 = nn.Conv1d(40, 48, kernel_size=1)
        self.bn5 = BatchNorm(48, eps=1e-3, momentum=0.1)
        self.linear1 = nn.Linear(48, 32)
        self.bn6 = BatchNorm(32, eps=1e-3, momentum=0.1)
        self.linear2 = nn.Linear(32, num_classes)

    def forward(self, points):
        x1 = self.edge_conv1(points)
        x2 = self.edge_conv2(x1)
        x = F.relu(self.bn5(self.conv5(torch.cat((x1, x2), dim=1))))
        pooled = F.adaptive_max_pool1d(x, 1).squeeze(-1)
        x = F.relu(self.bn6(self.linear1(pooled)))
        return {"net1": x1, "net2": x2, "pooled": pooled, "logits": self.linear2(x)}


def loss(model, point_cloud, labels):
    out = model(point_cloud.transpose(2, 1).contiguous())
    return F.cross_entropy(out["logits"], labels.long(), label_smoothing=0.2), out


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.7)
