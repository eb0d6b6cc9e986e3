import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

BATCH_SIZE = 16  # of all ranks together: gradients are summed


class BatchNorm2d(nn.BatchNorm2d):
    """Moves its statistics as tf.layers does without the fused kernel: by the biased variance of the batch."""

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                var, mean = torch.var_mean(x, dim=(0, 2, 3), unbiased=False)
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var, self.momentum)
            return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)


class ConvBlock(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False)
        self.bn = BatchNorm2d(out_channels, eps=1e-3, momentum=0.1)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


class ColumnReader(nn.Module):
    """A bidirectional LSTM over columns. One bias is trained, the other holds the forget bias of one."""

    def __init__(self, features, hidden):
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, batch_first=True, bidirectional=True)
        for bias in (self.lstm.bias_hh_l0, self.lstm.bias_hh_l0_reverse):
            bias.requires_grad_(False).zero_()
            bias[hidden:2 * hidden] = 1.0  # gates are i, f, g, o

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        out, _ = self.lstm(packed)
        out, _ = pad_packed_sequence(out, batch_first=True, total_length=x.shape[1])
        return out


class Model(nn.Module):
    def __init__(self, classes=9, hidden=10):
        super().__init__()
        self.block1 = ConvBlock(1, 6)
        self.block2 = ConvBlock(6, 9)
        self.block3 = ConvBlock(9, 12)
        self.reader = ColumnReader(2 * 12, hidden)
        self.classifier = nn.Linear(2 * hidden, classes)

    def forward(self, images, lengths):
        x = images.permute(0, 3, 1, 2) / 127.5 - 1.0
        x = F.max_pool2d(self.block1(x), 2)
        x = F.max_pool2d(self.block2(x), 2, stride=(2, 1))
        x = F.max_pool2d(self.block3(x), (2, 1))
        features = x.permute(0, 3, 2, 1).flatten(2)  # a column's rows, and channels within them
        rnn = self.reader(features, lengths)
        return features, rnn, self.classifier(rnn)


def loss(model, images, widths, labels):
    lengths = widths.long() // 2 - 1
    features, rnn, logits = model(images, lengths)
    cross_entropy = F.cross_entropy(logits.transpose(1, 2), labels.long(), reduction="none")
    mask = torch.arange(logits.shape[1], device=lengths.device) < lengths[:, None]
    per_line = (cross_entropy * mask).sum(dim=1) / lengths
    return per_line.sum() / BATCH_SIZE, {"features": features, "rnn": rnn, "logits": logits}


def optimizer(model):
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05, momentum=0.9, nesterov=True)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
