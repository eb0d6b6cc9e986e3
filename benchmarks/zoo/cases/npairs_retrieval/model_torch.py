import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm2d(nn.BatchNorm2d):
    """Moves towards the variance of the batch as it normalises by, not towards the unbiased one."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        n = x.numel() / x.size(1)
        mean, var = torch.zeros_like(self.running_mean), torch.zeros_like(self.running_var)
        out = F.batch_norm(x, mean, var, self.weight, self.bias, True, 1.0, self.eps)
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(var * ((n - 1) / n), self.momentum)
        return out


class Block(nn.Module):
    def __init__(self, in_channels, out_channels, pool):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False)
        self.bn = BatchNorm2d(out_channels, eps=1e-3, momentum=0.1)
        self.pool = nn.MaxPool2d(3, 2, ceil_mode=True) if pool else nn.Identity()
        nn.init.kaiming_normal_(self.conv.weight)

    def forward(self, x):
        return self.pool(F.relu(self.bn(self.conv(x))))


class EmbeddingNet(nn.Module):
    def __init__(self, widths=(8, 16, 24), dim=16):
        super().__init__()
        channels = [3, *widths]
        self.features = nn.Sequential(*(Block(a, b, pool=i < 2) for i, (a, b) in enumerate(zip(channels, channels[1:]))))
        self.fc = nn.Linear(channels[-1], dim)

    def forward(self, x):
        x = F.adaptive_avg_pool2d(self.features(x), 1)
        return self.fc(torch.flatten(x, 1))


class NPairLoss(nn.Module):
    def __init__(self, l2_reg):
        super().__init__()
        self.l2_reg = l2_reg

    def forward(self, anchors, positives, target):
        target = target.view(-1, 1)
        same = (target == target.t()).to(anchors.dtype)
        same = same / same.sum(dim=1, keepdim=True)
        logits = anchors @ positives.t()
        xent = F.cross_entropy(logits, same)
        l2 = self.l2_reg * (anchors.pow(2).sum() + positives.pow(2).sum()) / (4 * len(anchors))
        return l2, xent, logits


criterion = NPairLoss(l2_reg=0.02)


def loss(model, anchor, positive, label):
    images = torch.cat([anchor, positive]).permute(0, 3, 1, 2)
    first, second = model(images).chunk(2)
    l2, xent, logits = criterion(first, second, label)
    return xent + l2, {"embeddings": first, "similarity": logits, "xent": xent, "l2loss": l2}


class RMSpropTF(torch.optim.Optimizer):
    """RMSprop with epsilon under the root, a mean of squares that begins at one, and the rate inside the momentum."""

    def __init__(self, params, lr, alpha=0.9, eps=1e-10, momentum=0.0):
        super().__init__(params, dict(lr=lr, alpha=alpha, eps=eps, momentum=momentum))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["square_avg"] = torch.ones_like(p)
                    state["momentum_buffer"] = torch.zeros_like(p)
                square_avg, buf = state["square_avg"], state["momentum_buffer"]
                square_avg.add_(p.grad.pow(2) - square_avg, alpha=1.0 - group["alpha"])
                buf.mul_(group["momentum"]).addcdiv_(p.grad, (square_avg + group["eps"]).sqrt(), value=group["lr"])
                p.sub_(buf)


def optimizer(model):
    return RMSpropTF(model.parameters(), lr=0.002, alpha=0.9, eps=1e-3, momentum=0.9)
