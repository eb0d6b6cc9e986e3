import torch
from torch import nn
from torch.nn import functional as F

CLASSES = 3


class BatchNorm3d(nn.BatchNorm3d):
    """torch keeps the unbiased variance of the batch; unfused batch norm of TensorFlow keeps the biased one."""

    def __init__(self, channels):
        super().__init__(channels, eps=1e-3, momentum=0.05)

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                flat = x.transpose(0, 1).flatten(1)
                self.running_mean.lerp_(flat.mean(dim=1), self.momentum)
                self.running_var.lerp_(flat.var(dim=1, unbiased=False), self.momentum)
            return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, training=False, eps=self.eps)


class LUConv(nn.Sequential):
    def __init__(self, inchan, outchan):
        super().__init__()
        self.add_module("conv", nn.Conv3d(inchan, outchan, kernel_size=3, padding=1))
        self.add_module("bn", BatchNorm3d(outchan))
        self.add_module("prelu", nn.PReLU(outchan, init=0.1))


class ResidualStack(nn.Module):
    """Convolutions with a residual in front of the last activation."""

    def __init__(self, inchan, outchan, depth):
        super().__init__()
        widths = [inchan] + [outchan] * (depth - 1)
        self.ops = nn.ModuleList([LUConv(w, outchan) for w in widths])

    def forward(self, x, residual):
        for op in self.ops[:-1]:
            x = op(x)
        last = self.ops[-1]
        return last.prelu(last.bn(last.conv(x)) + residual)


class DownTransition(nn.Module):
    def __init__(self, inchan, depth):
        super().__init__()
        outchan = 2 * inchan
        self.down_conv = nn.Conv3d(inchan, outchan, kernel_size=2, stride=2)
        self.bn1 = BatchNorm3d(outchan)
        self.relu1 = nn.PReLU(outchan, init=0.1)
        self.stack = ResidualStack(outchan, outchan, depth)

    def forward(self, x):
        down = self.relu1(self.bn1(self.down_conv(x)))
        return self.stack(down, down)


class UpTransition(nn.Module):
    def __init__(self, inchan, depth):
        super().__init__()
        outchan = inchan // 2
        self.up_conv = nn.ConvTranspose3d(inchan, outchan, kernel_size=2, stride=2)
        self.bn1 = BatchNorm3d(outchan)
        self.relu1 = nn.PReLU(outchan, init=0.1)
        self.stack = ResidualStack(2 * outchan, outchan, depth)

    def forward(self, x, skipx):
        up = self.relu1(self.bn1(self.up_conv(x)))
        return self.stack(torch.cat((up, skipx), dim=1), up)


class Model(nn.Module):
    def __init__(self, n=4):
        super().__init__()
        self.in_tr = LUConv(1, n)
        self.level1 = ResidualStack(n, n, 1)
        self.down_tr8 = DownTransition(n, 1)
        self.down_tr16 = DownTransition(2 * n, 2)
        self.up_tr8 = UpTransition(4 * n, 1)
        self.up_tr4 = UpTransition(2 * n, 1)
        self.out_tr = nn.Conv3d(n, CLASSES, kernel_size=1)

    def forward(self, volume):
        x = self.in_tr(volume.permute(0, 4, 1, 2, 3))
        out4 = self.level1(x, x)
        out8 = self.down_tr8(out4)
        out16 = self.down_tr16(out8)
        up8 = self.up_tr8(out16, out8)
        up4 = self.up_tr4(up8, out4)
        return {"level_1": out4, "level_2": out8, "bottom": out16, "decoder_2": up8, "decoder_1": up4, "logits": self.out_tr(up4)}


def dice_coefficient(probs, onehot, smooth=1e-5):
    dims = (2, 3, 4)
    shared = (probs * onehot).sum(dims)
    return (2 * shared + smooth) / (probs.square().sum(dims) + onehot.square().sum(dims) + smooth)


def loss(model, volume, label):
    outputs = model(volume)
    logits = outputs["logits"]
    label = label.long()
    onehot = F.one_hot(label, CLASSES).movedim(-1, 1).to(logits.dtype)
    probs = F.softmax(logits, dim=1)
    dice_loss = 1 - dice_coefficient(probs, onehot).mean()
    cross_entropy = F.cross_entropy(logits, label)
    return dice_loss + 0.5 * cross_entropy, {**outputs, "dice_loss": dice_loss, "cross_entropy": cross_entropy}
