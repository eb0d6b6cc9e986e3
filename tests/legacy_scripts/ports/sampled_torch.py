"""The port of sampled.py: what the sampler drew are inputs of its loss."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(4, eps=1e-3, track_running_stats=False)
        self.hidden = nn.Linear(16, 6, bias=False)
        self.softmax = nn.Linear(6, 12)

    def forward(self, images, classes):
        net = self.norm(images.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        net = torch.tanh(self.hidden(net.reshape(len(net), 16)))
        return net, self.softmax.weight[classes], self.softmax.bias[classes]


def sampled_loss(model, images, labels, sampled, true_count, sampled_count, hits=True):
    net, weights, biases = model(images, torch.cat([labels, sampled]))
    true = (net * weights[: len(labels)]).sum(1) + biases[: len(labels)] - true_count[:, 0].log()
    others = net @ weights[len(labels) :].T + biases[len(labels) :] - sampled_count.log()
    if hits:
        others = others.masked_fill(labels[:, None] == sampled, torch.finfo(torch.float32).min)
    logits = torch.cat([true[:, None], others], 1)
    return nn.functional.cross_entropy(logits, torch.zeros_like(labels))


def loss(
    model, images, labels, LogUniformCandidateSampler_0, LogUniformCandidateSampler_1, LogUniformCandidateSampler_2
):
    drawn = LogUniformCandidateSampler_0, LogUniformCandidateSampler_1, LogUniformCandidateSampler_2
    return sampled_loss(model, images, labels, *drawn)


def loss_that_keeps_hits(
    model, images, labels, LogUniformCandidateSampler_0, LogUniformCandidateSampler_1, LogUniformCandidateSampler_2
):
    drawn = LogUniformCandidateSampler_0, LogUniformCandidateSampler_1, LogUniformCandidateSampler_2
    return sampled_loss(model, images, labels, *drawn, hits=False)
