import torch
from torch import nn
from torch.nn import functional as F

CLASS_WEIGHTS = (0.7, 0.8, 1.6, 1.4)
VOID = 255


class BatchNorm(nn.BatchNorm2d):
    """Keeps the biased variance, as unfused batch norm of TensorFlow does."""

    def __init__(self, channels):
        super().__init__(channels, eps=1e-3, momentum=0.01)

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.running_mean.lerp_(x.mean((0, 2, 3)), self.momentum)
                self.running_var.lerp_(x.var((0, 2, 3), unbiased=False), self.momentum)
            return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, training=False, eps=self.eps)


class DenseLayer(nn.Sequential):
    def __init__(self, in_channels, growth_rate):
        super().__init__()
        self.add_module("norm", BatchNorm(in_channels))
        self.add_module("relu", nn.ReLU(inplace=True))
        self.add_module("conv", nn.Conv2d(in_channels, growth_rate, 3, padding=1))


class DenseBlock(nn.Module):
    def __init__(self, in_channels, growth_rate, n_layers, upsample=False):
        super().__init__()
        self.upsample = upsample
        self.layers = nn.ModuleList([DenseLayer(in_channels + i * growth_rate, growth_rate) for i in range(n_layers)])

    def forward(self, x):
        new = []
        for layer in self.layers:
            out = layer(x)
            x = torch.cat([x, out], 1)
            new.append(out)
        return torch.cat(new, 1) if self.upsample else x


class TransitionDown(nn.Sequential):
    def __init__(self, channels):
        super().__init__()
        self.add_module("norm", BatchNorm(channels))
        self.add_module("relu", nn.ReLU(inplace=True))
        self.add_module("conv", nn.Conv2d(channels, channels, 1))
        self.add_module("maxpool", nn.MaxPool2d(2))


class TransitionUp(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.convTrans = nn.ConvTranspose2d(channels, channels, kernel_size=3, stride=2, padding=0)

    def forward(self, x, skip):
        out = self.convTrans(x)
        out = crop(out, skip.size(2), skip.size(3))
        return torch.cat([out, skip], 1)


def crop(x, height, width):
    """The transposed convolution makes one row and one column too many; SAME drops the last ones."""
    return x[:, :, :height, :width]


class FCDenseNet(nn.Module):
    def __init__(self, down_blocks=(2, 3), up_blocks=(3, 2), bottleneck=3, growth_rate=4, first=8, n_classes=4):
        super().__init__()
        self.firstconv = nn.Conv2d(3, first, 3, padding=1)
        channels, skips = first, []
        self.denseBlocksDown, self.transDown = nn.ModuleList(), nn.ModuleList()
        for n in down_blocks:
            self.denseBlocksDown.append(DenseBlock(channels, growth_rate, n))
            channels += growth_rate * n
            skips.insert(0, channels)
            self.transDown.append(TransitionDown(channels))
        self.bottleneck = DenseBlock(channels, growth_rate, bottleneck, upsample=True)
        new = growth_rate * bottleneck
        self.transUp, self.denseBlocksUp = nn.ModuleList(), nn.ModuleList()
        for i, n in enumerate(up_blocks):
            last = i == len(up_blocks) - 1
            self.transUp.append(TransitionUp(new))
            self.denseBlocksUp.append(DenseBlock(new + skips[i], growth_rate, n, upsample=not last))
            channels = new + skips[i] + growth_rate * n
            new = growth_rate * n
        self.finalConv = nn.Conv2d(channels, n_classes, 1)
        for m in self.modules():
            if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
                nn.init.kaiming_uniform_(m.weight)
                nn.init.zeros_(m.bias)

    def forward(self, x):
        out = self.firstconv(x)
        skips = []
        for block, down in zip(self.denseBlocksDown, self.transDown):
            out = block(out)
            skips.append(out)
            out = down(out)
        ends = {f"down{i}": skip for i, skip in enumerate(skips)}
        out = ends["bottleneck"] = self.bottleneck(out)
        for up, block in zip(self.transUp, self.denseBlocksUp):
            out = block(up(out, skips.pop()))
            ends[f"up{len(skips)}"] = out
        ends["logits"] = self.finalConv(out)
        return ends


def loss(model, images, labels):
    ends = model(images.permute(0, 3, 1, 2))
    logits, labels = ends["logits"], labels.long()
    weight = torch.tensor(CLASS_WEIGHTS, dtype=logits.dtype)
    valid = labels != VOID
    cross_entropy = F.cross_entropy(logits, labels, weight=weight, ignore_index=VOID, reduction="sum") / valid.sum()
    accuracy = (logits.argmax(1) == labels)[valid].to(logits.dtype).mean()
    # kernels have four axes, biases and batch norm one
    l2 = sum(p.square().sum() for p in model.parameters() if p.dim() == 4) / 2
    return cross_entropy + 1e-3 * l2, {**ends, "cross_entropy": cross_entropy, "pixel_accuracy": accuracy}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (1 - min(step, 6) / 6) ** 0.9)
