import torch
from torch import nn
from torch.nn import functional as F

L2_REG_LAMBDA = 0.01


class BatchNorm1d(nn.BatchNorm1d):
    """Keeps the biased variance, as the other framework's does."""

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                var, mean = torch.var_mean(x, dim=(0, 2), unbiased=False)
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var, self.momentum)
            return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)
        return super().forward(x)


class ConvPair(nn.Sequential):
    def __init__(self, channels):
        super().__init__(
            nn.ReLU(),
            nn.Conv1d(channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv1d(channels, channels, 3, padding=1),
        )


class PyramidBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.pool = nn.Sequential(nn.ConstantPad1d((0, 1), float("-inf")), nn.MaxPool1d(3, stride=2))
        self.convs = ConvPair(channels)

    def forward(self, x):
        x = self.pool(x)
        return self.convs(x) + x


class DPCNN(nn.Module):
    def __init__(self, vocab=67, emb_dim=14, channels=20, length=18, classes=5):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb_dim)
        self.region = nn.Sequential(
            nn.Conv1d(emb_dim, channels, 3, bias=False),
            BatchNorm1d(channels, eps=1e-3, momentum=0.1),
        )
        self.convs = ConvPair(channels)
        blocks, length = [], length - 2
        while length > 2:
            blocks.append(PyramidBlock(channels))
            length = (length + 1) // 2
        self.blocks = nn.ModuleList(blocks)
        self.fc = nn.Linear(channels, classes)
        nn.init.uniform_(self.embedding.weight, -1.0, 1.0)

    def forward(self, x):
        region = self.region(self.embedding(x).transpose(1, 2))
        first = self.convs(region) + region
        x = first
        for block in self.blocks:
            x = block(x)
        pooled = x.max(dim=-1).values
        return region, first, pooled, self.fc(pooled)


def loss(model, input_x, input_y):
    region, first, pooled, scores = model(input_x.long())
    value = F.cross_entropy(scores, input_y.argmax(dim=1))
    for name, p in model.named_parameters():
        if "fc." in name:
            value = value + L2_REG_LAMBDA * p.pow(2).sum() / 2
    return value, {"region": region, "first": first, "pooled": pooled, "scores": scores}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2], gamma=0.2)
