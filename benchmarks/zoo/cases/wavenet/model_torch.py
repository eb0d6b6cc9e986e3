"""WaveNet in PyTorch, channels in the middle."""

import torch
from torch import nn
from torch.nn import functional as F


class CausalConv1d(nn.Conv1d):
    """Sees the present and the past only: all of the padding is on the left."""

    def forward(self, x):
        return super().forward(F.pad(x, ((self.kernel_size[0] - 1) * self.dilation[0], 0)))


class ResidualBlock(nn.Module):
    def __init__(self, residual_channels, gate_channels, skip_channels, dilation, last=False):
        super().__init__()
        self.conv_tanh = CausalConv1d(residual_channels, gate_channels, 2, dilation=dilation)
        self.conv_sigmoid = CausalConv1d(residual_channels, gate_channels, 2, dilation=dilation)
        self.skip_out = nn.Conv1d(gate_channels, skip_channels, 1)
        # what would go to the next block; the last has none
        self.res_out = None if last else nn.Conv1d(gate_channels, residual_channels, 1)

    def forward(self, x):
        z = torch.tanh(self.conv_tanh(x)) * torch.sigmoid(self.conv_sigmoid(x))
        skip = self.skip_out(z)
        if self.res_out is None:
            return skip, None
        return skip, x + self.res_out(z)


class Model(nn.Module):
    def __init__(self, levels=32, residual_channels=12, gate_channels=14, skip_channels=16, layers=4, stacks=2):
        super().__init__()
        self.first_conv = CausalConv1d(levels, residual_channels, 2, bias=False)
        dilations = [2 ** i for i in range(layers)] * stacks
        self.blocks = nn.ModuleList(
            ResidualBlock(residual_channels, gate_channels, skip_channels, d, last=i == len(dilations) - 1)
            for i, d in enumerate(dilations)
        )
        self.last_convs = nn.Sequential(
            nn.ReLU(), nn.Conv1d(skip_channels, skip_channels, 1), nn.ReLU(), nn.Conv1d(skip_channels, levels, 1)
        )

    def forward(self, x):
        causal = x = self.first_conv(x)
        skips = []
        for block in self.blocks:
            skip, x = block(x)
            skips.append(skip)
        total = torch.stack(skips).sum(0)
        return {"causal": causal, "first_skip": skips[0], "skips": total, "raw_output": self.last_convs(total)}


def loss(model, audio):
    out = model(audio[:, :-1].transpose(1, 2).contiguous())
    targets = audio[:, 1:].argmax(-1)
    out["reduced_loss"] = F.cross_entropy(out["raw_output"], targets)
    l2 = sum(p.pow(2).sum() for name, p in model.named_parameters() if not name.endswith("bias")) / 2
    total = out["reduced_loss"] + 1e-3 * l2
    # as the original reports them: time before channels
    return total, {k: v.transpose(1, 2) if v.dim() == 3 else v for k, v in out.items()}
