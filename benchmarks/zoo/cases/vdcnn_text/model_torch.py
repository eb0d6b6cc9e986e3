import torch
from torch import nn
from torch.nn import functional as F

CLIP = 2.0


class BatchNorm(nn.BatchNorm1d):
    """nn.BatchNorm1d whose running variance is of the biased variances, as the original keeps it."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=(0, 2), unbiased=False)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)


class ConvBlock(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(n_in, n_out, kernel_size=3, padding=1, bias=False),
            BatchNorm(n_out),
            nn.ReLU(inplace=True),
            nn.Conv1d(n_out, n_out, kernel_size=3, padding=1, bias=False),
            BatchNorm(n_out),
        )
        self.shortcut = nn.Identity()
        if n_in != n_out:
            self.shortcut = nn.Sequential(nn.Conv1d(n_in, n_out, 1, bias=False), BatchNorm(n_out))

    def forward(self, x):
        return F.relu(self.layers(x) + self.shortcut(x))


class Halve(nn.Module):
    """Max pooling by three, every other one; the odd position of an even length is padded at the end."""

    def forward(self, x):
        return F.max_pool1d(F.pad(x, (0, 1), value=float("-inf")), 3, stride=2)


class KMaxPool(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        return x.topk(self.k, dim=2).values


class Model(nn.Module):
    def __init__(self, n_chars=31, dim=10, stem=8, widths=(8, 14, 16), k=3, n_fc=24, n_classes=4):
        super().__init__()
        self.embed = nn.Embedding(n_chars, dim)
        self.first = nn.Conv1d(dim, stem, kernel_size=3, padding=1)
        self.blocks = nn.ModuleList(ConvBlock(a, b) for a, b in zip((stem, *widths), widths))
        self.halve = Halve()
        self.pool = KMaxPool(k)
        self.fc = nn.Sequential(
            nn.Linear(widths[-1] * k, n_fc), nn.ReLU(), nn.Linear(n_fc, n_fc), nn.ReLU(), nn.Linear(n_fc, n_classes))
        for m in self.modules():
            if isinstance(m, nn.Conv1d):
                nn.init.kaiming_normal_(m.weight, mode="fan_in")

    def forward(self, chars):
        x = self.first(self.embed(chars).transpose(1, 2))
        seen = {"first_conv": x}
        for i, block in enumerate(self.blocks):
            x = block(x if i == 0 else self.halve(x))
            seen[f"block_{i}"] = x
        seen["k_max"] = x = self.pool(x)
        seen["logits"] = self.fc(x.flatten(1))
        return seen


def loss(model, chars, labels):
    seen = model(chars.long())
    return F.cross_entropy(seen["logits"], labels), seen


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)


def step(model, optimizer, scheduler, chars, labels):
    optimizer.zero_grad(set_to_none=True)
    value, seen = loss(model, chars, labels)
    value.backward()
    grads = [p.grad for p in model.parameters()]
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in grads]))
    if norm > CLIP:
        torch._foreach_mul_(grads, float(CLIP / norm))
    optimizer.step()
    scheduler.step()
    return value, seen
