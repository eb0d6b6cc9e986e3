"""DFSMN acoustic model behind two convolutions, and its training."""
import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm2d(nn.BatchNorm2d):
    """Batch norm whose running variance follows the biased variance of the batch."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=(0, 2, 3), unbiased=False)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)
            self.num_batches_tracked += 1
        return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)


class ConvBlock(nn.Sequential):
    def __init__(self, in_channels, out_channels):
        super().__init__(
            nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False),
            BatchNorm2d(out_channels, eps=1e-3, momentum=0.1),
            nn.ReLU(),
            nn.MaxPool2d((1, 2)),
        )


class MemoryBlock(nn.Module):
    """Looks back `left` taps, the present frame included, and ahead `right` taps, behind the present frame."""

    def __init__(self, dim, left=4, right=2, left_stride=2, right_stride=1):
        super().__init__()
        self.left = nn.Conv1d(dim, dim, left, dilation=left_stride, groups=dim, bias=False)
        self.right = nn.Conv1d(dim, dim, right, dilation=right_stride, groups=dim, bias=False)
        self.look_back = (left - 1) * left_stride
        self.look_ahead, self.skip = right * right_stride, right_stride

    def forward(self, p, mask, former=None):
        p = (p * mask.unsqueeze(2)).transpose(1, 2)
        past = self.left(F.pad(p, (self.look_back, 0)))
        future = self.right(F.pad(p, (0, self.look_ahead))[..., self.skip:])
        memory = (p + past + future).transpose(1, 2)
        return memory if former is None else memory + former


class Layer(nn.Module):
    def __init__(self, hidden, proj):
        super().__init__()
        self.down = nn.Linear(hidden, proj, bias=False)
        self.memory = MemoryBlock(proj)
        self.up = nn.Linear(proj, hidden)

    def forward(self, x, mask, former=None):
        memory = self.memory(self.down(x), mask, former)
        return F.relu(self.up(memory)), memory


class Model(nn.Module):
    def __init__(self, bands=12, states=10, hidden=32, proj=16, layers=3):
        super().__init__()
        self.conv = nn.Sequential(ConvBlock(1, 6), ConvBlock(6, 8))
        self.inputs = nn.Linear(bands // 4 * 8, hidden)
        self.layers = nn.ModuleList(Layer(hidden, proj) for _ in range(layers))
        self.outputs = nn.Linear(hidden, states)

    def forward(self, frames, mask):
        x = self.conv(frames.unsqueeze(1))           # [batch, channels, time, bands]
        x = x.permute(0, 2, 3, 1).flatten(2)
        x, memory = F.relu(self.inputs(x)), None
        for layer in self.layers:
            x, memory = layer(x, mask, memory)
        return memory, self.outputs(x)


def decayed(model):
    model = getattr(model, "module", model)
    return [m.weight for m in model.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]


def loss(model, frames, lengths, senones):
    mask = (torch.arange(frames.size(1), device=frames.device) < lengths.unsqueeze(1)).to(frames.dtype)
    memory, logits = model(frames, mask)
    losses = F.cross_entropy(logits.transpose(1, 2), senones.long(), reduction="none")
    cross_entropy = (losses * mask).sum() / mask.sum()
    penalty = sum(w.square().sum() for w in decayed(model)) / 2
    return cross_entropy + 2e-4 * penalty, {"memory": memory, "logits": logits, "cross_entropy": cross_entropy}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2, 4], gamma=0.4)
