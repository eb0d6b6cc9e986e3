"""SegNet in small. Batch norm has a bias but no weight, and the loss weighs classes by their rarity."""

import torch
from torch import nn
from torch.nn import functional as F

CLASS_WEIGHTS = (0.35, 0.5, 1.2, 3.0, 2.2)
VOID = 5
MEAN_BGR = (103.94, 116.78, 123.68)


class CenteredBatchNorm2d(nn.Module):
    """Batch norm without a weight; its running variance is that of the batch, biased."""

    def __init__(self, channels, eps=1e-3, momentum=0.01):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x):
        if self.training:
            var, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var, self.momentum)
        else:
            var, mean = self.running_var, self.running_mean
        scale = (var + self.eps).rsqrt()
        shift = self.bias - mean * scale
        return x * scale[:, None, None] + shift[:, None, None]


class Encoder(nn.Module):
    def __init__(self, cin, cout, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, kernel_size, padding=kernel_size // 2)
        self.norm = CenteredBatchNorm2d(cout)

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x)))
        return F.max_pool2d(x, 2, stride=2, return_indices=True)


class Decoder(nn.Module):
    def __init__(self, cin, cout, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, kernel_size, padding=kernel_size // 2)
        self.norm = CenteredBatchNorm2d(cout)

    def forward(self, x, indices):
        x = F.max_unpool2d(x, indices, 2, stride=2)
        return self.norm(self.conv(x))


class Model(nn.Module):
    def __init__(self, num_classes=5):
        super().__init__()
        self.encoder1 = Encoder(3, 12, 5)
        self.encoder2 = Encoder(12, 16, 3)
        self.encoder3 = Encoder(16, 24, 3)
        self.decoder3 = Decoder(24, 16, 3)
        self.decoder2 = Decoder(16, 12, 3)
        self.decoder1 = Decoder(12, 10, 5)
        self.classifier = nn.Conv2d(10, num_classes, 1)

    def forward(self, images):
        x = (images.flip(1) - images.new_tensor(MEAN_BGR).view(3, 1, 1)) / 64.0
        pool1, indices1 = self.encoder1(x)
        pool2, indices2 = self.encoder2(pool1)
        pool3, indices3 = self.encoder3(pool2)
        decode3 = self.decoder3(pool3, indices3)
        decode2 = self.decoder2(decode3, indices2)
        decode1 = self.decoder1(decode2, indices1)
        return {
            "pool1": pool1, "pool2": pool2, "pool3": pool3,
            "decode3": decode3, "decode2": decode2, "decode1": decode1,
            "logits": self.classifier(decode1),
        }


def weighted_cross_entropy(logits, labels):
    """Averages over the pixels that are not void; a pixel's weight is not in the divisor."""
    valid = labels != VOID
    probabilities = logits.permute(0, 2, 3, 1)[valid].softmax(dim=1)
    labels = labels[valid]
    nll = -torch.log(probabilities + 1e-10).gather(1, labels[:, None]).squeeze(1)
    weights = torch.tensor(CLASS_WEIGHTS, dtype=logits.dtype, device=logits.device)[labels]
    return (weights * nll).mean()


def loss(model, images, labels):
    out = model(images.permute(0, 3, 1, 2).contiguous())
    return weighted_cross_entropy(out["logits"], labels.long()), out


def optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.05, initial_accumulator_value=0.1, eps=0.0)
