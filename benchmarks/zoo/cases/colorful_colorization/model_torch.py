import torch
import torch.nn.functional as F
from torch import nn

BINS = [(a, b) for a in (-40, 0, 40) for b in (-40, 0, 40)]
BIN_FREQUENCY = [0.02, 0.05, 0.16, 0.09, 0.30, 0.08, 0.04, 0.07, 0.19]
MAX_NORM = 40.0


class RunningNorm(nn.BatchNorm2d):
    """nn.BatchNorm2d, but for the running variance, which is the mean of the batches' biased ones."""

    def __init__(self, channels):
        super().__init__(channels, eps=1e-5, momentum=0.1)

    def forward(self, x):
        if self.training:
            var, mean = torch.var_mean(x.detach(), (0, 2, 3), correction=0)
            self.running_mean += self.momentum * (mean - self.running_mean)
            self.running_var += self.momentum * (var - self.running_var)
            return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)
        return super().forward(x)


class DownConv(nn.Conv2d):
    """Halves an even map; the padding is at the right and at the bottom."""

    def __init__(self, channels):
        super().__init__(channels, channels, 3, stride=2)

    def forward(self, x):
        return super().forward(F.pad(x, (0, 1, 0, 1)))


class AnnealedMean(nn.Module):
    """From logits of the bins to ab: the mean of the bins under a sharpened distribution."""

    def __init__(self, temperature=0.38):
        super().__init__()
        self.temperature = temperature

    def forward(self, logits):
        bins = logits.new_tensor(BINS)
        p = F.softmax(logits / self.temperature, dim=1)
        return torch.einsum("bqhw,qc->bchw", p, bins)


class Model(nn.Module):
    def __init__(self, bins=len(BINS)):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), DownConv(8), nn.ReLU(), RunningNorm(8),
            nn.Conv2d(8, 14, 3, padding=1), nn.ReLU(), DownConv(14), nn.ReLU(), RunningNorm(14),
        )
        self.context = nn.Sequential(
            nn.Conv2d(14, 20, 3, padding=2, dilation=2), nn.ReLU(),
            nn.Conv2d(20, 20, kernel_size=3, padding=2, dilation=2), nn.ReLU(), RunningNorm(20),
            nn.Conv2d(20, 20, 3, padding=1), nn.ReLU(), RunningNorm(20),
        )
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(20, 16, 4, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(),
            nn.Conv2d(16, bins, 1),
        )
        self.to_ab = AnnealedMean()

    def forward(self, lightness):
        x = (lightness - 50) / 100
        logits = self.decoder(self.context(self.encoder(x)))
        return logits, self.to_ab(logits)


def soft_targets(ab, neighbours=3, sigma=20.0):
    """[B, 2, H, W] -> [B, bins, H, W]"""
    bins = ab.new_tensor(BINS)
    distance = (ab.unsqueeze(1) - bins[:, :, None, None]).square().sum(2)
    nearest, index = distance.topk(neighbours, dim=1, largest=False)
    weight = torch.exp(-nearest / (2 * sigma ** 2))
    weight = weight / weight.sum(1, keepdim=True)
    return torch.zeros_like(distance).scatter(1, index, weight)


def rebalancing(targets, ab, gamma=0.5, threshold=5.0):
    """How much a place counts: rare bins more than frequent ones, and nothing in a picture without colour."""
    frequency = targets.new_tensor(BIN_FREQUENCY)
    factor = 1 / ((1 - gamma) * frequency + gamma / len(frequency))
    factor = factor / (frequency * factor).sum()
    coloured = (ab.abs() > threshold).flatten(1).any(1)
    return factor[targets.argmax(1)] * coloured[:, None, None]


def loss(model, data_l, data_ab):
    logits, predicted = model(data_l.permute(0, 3, 1, 2))
    ab = data_ab.permute(0, 3, 1, 2)[:, :, ::2, ::2]
    targets = soft_targets(ab)
    boost = rebalancing(targets, ab).unsqueeze(1)

    # the original rebalances the gradient of the cross entropy at the logits, and its loss is their product
    gradient = (logits.softmax(1) - targets).detach() / logits.size(0)
    value = (gradient * boost * logits).sum()

    cross_entropy = F.cross_entropy(logits, targets, reduction="sum") / logits.size(0)
    rmse = F.mse_loss(predicted, ab).sqrt()
    return value, {"logits": logits, "ab_pred": predicted, "cross_entropy": cross_entropy, "rmse": rmse}


def make_optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.03, initial_accumulator_value=0.1, eps=0.0)


def make_scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5 ** (step / 4))


@torch.no_grad()
def clip_gradients(parameters, limit):
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.sqrt(sum(g.square().sum() for g in grads))
    for g in grads:
        g.mul_(limit / norm.clamp(min=limit))


def train_step(model, optimizer, scheduler, data_l, data_ab):
    optimizer.zero_grad()
    value, outputs = loss(model, data_l, data_ab)
    value.backward()
    clip_gradients(model.parameters(), MAX_NORM)
    optimizer.step()
    scheduler.step()
    return value, outputs
