import torch
import torch.nn.functional as F
from torch import nn

FRAMES, CEPSTRA = 25, 10


class BatchNorm2d(nn.BatchNorm2d):
    """Batch norm with an offset only, whose moving variance takes the biased variance as TensorFlow's unfused one does."""

    def __init__(self, channels):
        super().__init__(channels, eps=1e-3, momentum=0.04, affine=False)
        self.beta = nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        if self.training:
            var, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var, self.momentum)
            return F.batch_norm(x, None, None, bias=self.beta, training=True, eps=self.eps)
        return F.batch_norm(x, self.running_mean, self.running_var, bias=self.beta, eps=self.eps)


def conv_bn_relu(*args, **kwargs):
    conv = nn.Conv2d(*args, bias=False, **kwargs)
    return [conv, BatchNorm2d(conv.out_channels), nn.ReLU()]


class Separable(nn.Sequential):
    def __init__(self, channels, out_channels, stride):
        super().__init__(*conv_bn_relu(channels, channels, 3, stride=stride, padding=1, groups=channels),
                         *conv_bn_relu(channels, out_channels, 1))


class Stem(nn.Sequential):
    """10 x 4 with stride 2, padded like SAME: an even kernel over an odd number of frames has one more row below."""

    def __init__(self, channels):
        super().__init__(nn.ZeroPad2d((1, 1, 4, 5)), *conv_bn_relu(1, channels, (10, 4), stride=2))


class Model(nn.Module):
    def __init__(self, words=6):
        super().__init__()
        self.stem = Stem(14)
        self.blocks = nn.Sequential(Separable(14, 14, 1), Separable(14, 20, 2), Separable(20, 20, 1))
        self.classifier = nn.Linear(20, words)

    def forward(self, fingerprint):
        x = fingerprint.view(-1, 1, FRAMES, CEPSTRA)
        x = self.blocks(self.stem(x))
        return x, self.classifier(x.mean(dim=(2, 3)))


def loss(model, fingerprint, label):
    features, logits = model(fingerprint)
    value = F.cross_entropy(logits, label.long())
    accuracy = (logits.argmax(1) == label).to(logits.dtype).mean()
    return value, {"features": features, "logits": logits, "accuracy": accuracy}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2], gamma=0.2)
