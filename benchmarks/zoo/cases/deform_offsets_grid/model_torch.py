"""A small network with one deformable convolution; strided layers pad as TensorFlow's SAME does."""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm2d(nn.BatchNorm2d):
    """Averages the biased variance, as batch norm that is not fused does."""

    def __init__(self, channels):
        super().__init__(channels, eps=1e-3, momentum=0.1)

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)


def sample_bilinear(x, ys, xs):
    """x: [b, c, h, w]; ys, xs: [b, taps, h, w] in pixels. Returns [b, c, taps, h, w]; outside is the nearest edge."""
    b, c, h, w = x.shape
    flat = x.flatten(2)

    def at(iy, ix):
        index = iy.clamp(0, h - 1) * w + ix.clamp(0, w - 1)
        picked = flat.gather(2, index.flatten(1).unsqueeze(1).expand(-1, c, -1))
        return picked.view(b, c, *ys.shape[1:])

    ys = ys.clamp(0, h - 1)
    xs = xs.clamp(0, w - 1)
    y0, x0 = ys.detach().floor(), xs.detach().floor()
    ly, lx = (ys - y0).unsqueeze(1), (xs - x0).unsqueeze(1)
    y0, x0 = y0.long(), x0.long()
    return (
        at(y0, x0) * (1 - ly) * (1 - lx)
        + at(y0, x0 + 1) * (1 - ly) * lx
        + at(y0 + 1, x0) * ly * (1 - lx)
        + at(y0 + 1, x0 + 1) * ly * lx
    )


class DeformConv2d(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size=3):
        super().__init__()
        self.kernel_size = kernel_size
        self.offset_conv = nn.Conv2d(in_channels, 2 * kernel_size**2, kernel_size, padding=kernel_size // 2)
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels, kernel_size, kernel_size))
        nn.init.kaiming_normal_(self.weight)
        nn.init.normal_(self.offset_conv.weight, std=0.05)

    def forward(self, x):
        b, c, h, w = x.shape
        offsets = self.offset_conv(x)
        off_y, off_x = offsets.view(b, -1, 2, h, w).unbind(2)
        reach = self.kernel_size // 2
        tap = torch.arange(-reach, reach + 1, device=x.device)
        tap_y, tap_x = (t.reshape(1, -1, 1, 1) for t in torch.meshgrid(tap, tap, indexing="ij"))
        rows = torch.arange(h, device=x.device).view(1, 1, h, 1)
        cols = torch.arange(w, device=x.device).view(1, 1, 1, w)
        sampled = sample_bilinear(x, rows + tap_y + off_y, cols + tap_x + off_x)
        return torch.einsum("bcnhw,ocn->bohw", sampled, self.weight.flatten(2)), offsets


class Model(nn.Module):
    def __init__(self, num_classes=4):
        super().__init__()
        self.stem = nn.Conv2d(2, 6, 3, padding=1, bias=False)
        self.stem_norm = BatchNorm2d(6)
        self.deform = DeformConv2d(6, 8)
        self.deform_norm = BatchNorm2d(8)
        self.down = nn.Conv2d(8, 12, 3, stride=2, bias=False)
        self.down_norm = BatchNorm2d(12)
        self.head = nn.Linear(12, num_classes)

    def forward(self, x):
        x = F.relu(self.stem_norm(self.stem(x)))
        x, offsets = self.deform(x)
        stage1 = F.relu(self.deform_norm(x))
        x = self.down(F.pad(stage1, (0, 1, 0, 1)))
        stage2 = F.relu(self.down_norm(x))
        logits = self.head(stage2.mean(dim=(2, 3)))
        return {"offsets": offsets, "stage1": stage1, "stage2": stage2, "logits": logits}

    def decayed(self):
        return [self.stem.weight, self.deform.weight, self.down.weight, self.head.weight]


def loss(model, images, labels):
    out = model(images.permute(0, 3, 1, 2))
    net = getattr(model, "module", model)
    penalty = 0.5 * sum(w.square().sum() for w in net.decayed())
    return F.cross_entropy(out["logits"], labels.long()) + 1e-3 * penalty, out


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)
