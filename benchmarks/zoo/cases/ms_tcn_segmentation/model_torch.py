"""MS-TCN (Abu Farha and Gall 2019)."""

import torch
from torch import nn
from torch.nn import functional as F


class DilatedResidualLayer(nn.Module):
    def __init__(self, dilation, channels):
        super().__init__()
        self.dilated = nn.Conv1d(channels, channels, 3, padding=dilation, dilation=dilation)
        self.pointwise = nn.Conv1d(channels, channels, 1)

    def forward(self, x, mask):
        out = F.relu(self.dilated(x))
        return (x + self.pointwise(out)) * mask


class Stage(nn.Module):
    def __init__(self, in_channels, channels, num_classes, num_layers):
        super().__init__()
        self.project = nn.Conv1d(in_channels, channels, 1)
        self.layers = nn.ModuleList(DilatedResidualLayer(2 ** i, channels) for i in range(num_layers))
        self.head = nn.Conv1d(channels, num_classes, 1)

    def forward(self, x, mask):
        x = self.project(x)
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(x) * mask


class Model(nn.Module):
    def __init__(self, in_channels=10, channels=12, num_classes=5, num_layers=3, num_refinements=2):
        super().__init__()
        self.prediction = Stage(in_channels, channels, num_classes, num_layers)
        self.refinements = nn.ModuleList(
            Stage(num_classes, channels, num_classes, num_layers) for _ in range(num_refinements))

    def forward(self, x, mask):
        """x: [batch, channels, time], mask: [batch, 1, time]"""
        outputs = [self.prediction(x, mask)]
        for stage in self.refinements:
            outputs.append(stage(F.softmax(outputs[-1], dim=1) * mask, mask))
        return outputs


def smoothing_loss(logits, mask, tau=1.5):
    log_p = F.log_softmax(logits, dim=1)
    change = (log_p[:, :, 1:] - log_p[:, :, :-1].detach()) ** 2
    return (change.clamp(max=tau ** 2) * mask[:, :, 1:]).mean()


def loss(model, features, labels, mask):
    mask = mask[:, None, :]
    outputs = model(features.transpose(1, 2), mask)
    classification = sum(F.cross_entropy(p, labels.long(), ignore_index=-100) for p in outputs)
    smoothing = sum(smoothing_loss(p, mask) for p in outputs)
    logs = {f"stage_{s}": p for s, p in enumerate(outputs)}
    logs.update(classification=classification, smoothing=smoothing)
    return classification + 0.15 * smoothing, logs


def optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.02, initial_accumulator_value=0.1, eps=0)


def scheduler(optimizer, first=0.02, last=0.002, steps=10, power=0.9):
    def factor(step):
        return ((first - last) * (1 - min(step, steps) / steps) ** power + last) / first

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
