"""Virtual adversarial training: classifier, the loss as a module of its own, and a switch that keeps running statistics as they are."""

import contextlib

import torch
from torch import nn
from torch.nn import functional as F

LEARNING_RATE, LAST_RATE, DECAY_STEPS = 0.004, 0.0004, 4
ENTROPY_WEIGHT = 0.5


class BatchNorm2d(nn.BatchNorm2d):
    """Its running variance is of the biased variances; where ``track_running_stats`` is off in training nothing is recorded."""

    def forward(self, x):
        if self.training and self.track_running_stats:
            with torch.no_grad():
                var, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var, self.momentum)
        if self.training:
            return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)


@contextlib.contextmanager
def frozen_statistics(model):
    layers = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    for m in layers:
        m.track_running_stats = False
    yield
    for m in layers:
        m.track_running_stats = True


def unit(layer, channels):
    return nn.Sequential(layer, BatchNorm2d(channels, eps=1e-5, momentum=0.1), nn.LeakyReLU(0.1))


class Classifier(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.features = nn.Sequential(
            unit(nn.Conv2d(3, 8, 3, padding=1, bias=False), 8),
            unit(nn.Conv2d(8, 12, 3, padding=1, bias=False), 12),
            nn.MaxPool2d(2, 2),
            unit(nn.Conv2d(12, 16, 3, bias=False), 16),
            unit(nn.Conv2d(16, 12, 1, bias=False), 12),
        )
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(12, classes)

    def forward(self, x):
        return self.fc(self.pool(self.features(x)).flatten(1))


def normalised(d):
    d = d / (1e-12 + d.abs().amax(dim=(1, 2, 3), keepdim=True))
    return d / (1e-6 + d.square().sum(dim=(1, 2, 3), keepdim=True)).sqrt()


class VATLoss(nn.Module):
    def __init__(self, xi=1.0, eps=2.5, ip=1):
        super().__init__()
        self.xi, self.eps, self.ip = xi, eps, ip

    def divergence(self, logits, target):
        return F.kl_div(F.log_softmax(logits, dim=1), target, reduction="batchmean")

    def forward(self, model, x, logits, d):
        target = F.softmax(logits.detach(), dim=1)
        for _ in range(self.ip):
            d = (self.xi * normalised(d)).requires_grad_()
            distance = self.divergence(model(x + d), target)
            d, = torch.autograd.grad(distance, d)
        r_adv = self.eps * normalised(d)
        return self.divergence(model(x + r_adv), target), r_adv


class ConvNet(nn.Module):
    """The classifier, and in training all that the unlabelled images add."""

    def __init__(self):
        super().__init__()
        self.classifier = Classifier()
        self.vat = VATLoss()

    def forward(self, images, unlabeled=None, noise=None):
        logits = self.classifier(images)
        if not self.training:
            return logits
        with frozen_statistics(self.classifier):
            ul_logits = self.classifier(unlabeled)
            vat, r_adv = self.vat(self.classifier, unlabeled, ul_logits, noise)
        return logits, ul_logits, vat, r_adv


def entropy(logits):
    return -(F.softmax(logits, dim=1) * F.log_softmax(logits, dim=1)).sum(1).mean()


def loss(model, images, labels, unlabeled, noise):
    images, unlabeled, noise = (x.permute(0, 3, 1, 2).contiguous() for x in (images, unlabeled, noise))
    labels = labels.long()
    if not model.training:
        logits = model(images)
        accuracy = (logits.argmax(1) == labels).to(logits.dtype).mean()
        return F.cross_entropy(logits, labels), {"logit": logits, "accuracy": accuracy}
    logits, ul_logits, vat_loss, r_adv = model(images, unlabeled, noise)
    ce_loss = F.cross_entropy(logits, labels)
    entropy_loss = entropy(ul_logits)
    accuracy = (logits.argmax(1) == labels).to(logits.dtype).mean()
    outputs = {"logit": logits, "accuracy": accuracy, "ul_logit": ul_logits, "r_vadv": r_adv, "ce_loss": ce_loss,
               "vat_loss": vat_loss, "entropy_loss": entropy_loss}
    return ce_loss + vat_loss + ENTROPY_WEIGHT * entropy_loss, outputs


def rate(step):
    left = 1 - min(step, DECAY_STEPS) / DECAY_STEPS
    return LAST_RATE + (LEARNING_RATE - LAST_RATE) * left
