"""Gated convolutional acoustic model with CTC."""

import torch
from torch import nn
from torch.nn import functional as F

BLANK = 10


class GatedConv1d(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, pad=(0, 0)):
        super().__init__()
        self.pad = pad
        self.conv = nn.Conv1d(in_channels, 2 * out_channels, kernel_size, stride=stride)

    def forward(self, x):
        return F.glu(self.conv(F.pad(x, self.pad)), dim=1)


class Model(nn.Module):
    def __init__(self, num_features=8, num_classes=11):
        super().__init__()
        self.conv1 = GatedConv1d(num_features, 16, 5, stride=2, pad=(1, 2))
        self.conv2 = GatedConv1d(16, 24, 3, pad=(1, 1))
        self.fc = nn.Linear(24, 32)
        self.classifier = nn.Linear(32, num_classes)

    def forward(self, features, frames):
        spoken = torch.arange(features.size(1), device=features.device)[None, :] < frames[:, None]
        spoken = spoken.to(features.dtype).unsqueeze(2)
        mean = (features * spoken).sum(dim=1, keepdim=True) / spoken.sum(dim=1, keepdim=True)
        x = ((features - mean) * spoken).transpose(1, 2)
        conv1 = self.conv1(x)
        conv2 = self.conv2(conv1)
        hidden = F.hardtanh(self.fc(conv2.transpose(1, 2)), 0.0, 20.0)
        return conv1, conv2, self.classifier(hidden)


def loss(model, features, frames, labels):
    conv1, conv2, logits = model(features, frames)
    log_probs = F.log_softmax(logits, dim=-1).transpose(0, 1)
    input_lengths = (frames.long() + 1) // 2
    target_lengths = (labels != -1).sum(dim=1)
    targets = labels.long().clamp(min=0)
    losses = F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=BLANK, reduction="none")
    return losses.mean(), {"conv1": conv1, "conv2": conv2, "logits": logits, "total_loss": losses}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.95, nesterov=True)
