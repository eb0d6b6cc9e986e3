import torch
from torch import nn
from torch.nn import functional as F


class StridedConv(nn.Module):
    """Halves the frames, padded such that the windows lie where "SAME" puts them for an odd number of frames."""

    def __init__(self, in_channels, out_channels, width=8, pad=(3, 4)):
        super().__init__()
        self.pad = pad
        self.conv = nn.Conv1d(in_channels, out_channels, width, stride=2)

    def forward(self, x):
        return F.relu(self.conv(F.pad(x, self.pad)))


def conv(in_channels, out_channels, width):
    return nn.Sequential(nn.Conv1d(in_channels, out_channels, width, padding="same"), nn.ReLU(inplace=True))


class Wav2Letter(nn.Module):
    def __init__(self, features=12, channels=20, classes=10):
        super().__init__()
        self.front = StridedConv(features, channels)
        self.body = nn.ModuleList([conv(channels, channels, 5) for _ in range(3)])
        self.body.append(conv(channels, 2 * channels, 6))
        self.body.append(conv(2 * channels, 2 * channels, 1))
        self.output = nn.Conv1d(2 * channels, classes, 1)
        for module in self.modules():
            if isinstance(module, nn.Conv1d):
                nn.init.xavier_normal_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(self, x):
        strided = self.front(x.transpose(1, 2))
        x = strided
        for layer in self.body:
            x = layer(x)
        return strided, self.output(x).permute(2, 0, 1)


def loss(model, inputs, sequence_lengths, labels, label_lengths):
    strided, logits = model(inputs)
    frames = torch.div(sequence_lengths.long() + 1, 2, rounding_mode="floor")
    cost = F.ctc_loss(logits.log_softmax(-1), labels.long(), frames, label_lengths.long(), blank=logits.size(-1) - 1, reduction="none")
    return cost.mean(), {"strided": strided, "logits": logits, "cost": cost}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)


@torch.no_grad()
def clip_gradients(model, limit=5.0):
    grads = [p.grad for p in model.parameters()]
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in grads]))
    if norm > limit:
        torch._foreach_mul_(grads, float(limit / norm))


def step(model, optimizer, scheduler, **batch):
    optimizer.zero_grad(set_to_none=True)
    value, outputs = loss(model, **batch)
    value.backward()
    clip_gradients(model)
    optimizer.step()
    scheduler.step()
    return value, outputs
