import torch
import torch.nn.functional as F
from torch import nn


class BatchNorm(nn.BatchNorm2d):
    """Keeps the plain (biased) variance of the batches, as the original's layers do."""

    def __init__(self, channels):
        super().__init__(channels, eps=1e-3, momentum=0.01)

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        var, mean = torch.var_mean(x.detach(), dim=(0, 2, 3), correction=0)
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(var, self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)


class ConvNorm(nn.Sequential):
    """Convolution and batch norm; with a stride the image is padded at the end first, for even sizes."""

    def __init__(self, cin, cout, kernel=3, stride=1, act=True):
        if stride == 1 or kernel == 1:
            layers = [nn.Conv2d(cin, cout, kernel, stride, padding=kernel // 2, bias=False)]
        else:
            before = (kernel - stride) // 2
            after = kernel - stride - before
            layers = [nn.ZeroPad2d((before, after, before, after)), nn.Conv2d(cin, cout, kernel, stride, bias=False)]
        layers.append(BatchNorm(cout))
        if act:
            layers.append(nn.ReLU())
        super().__init__(*layers)


class Residual(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1 = ConvNorm(cin, cout, stride=stride)
        self.conv2 = ConvNorm(cout, cout, act=False)
        self.shortcut = ConvNorm(cin, cout, 1, stride, act=False) if stride != 1 or cin != cout else nn.Identity()

    def forward(self, x):
        return F.relu(self.conv2(self.conv1(x)) + self.shortcut(x))


class Hourglass(nn.Module):
    def __init__(self, dims):
        super().__init__()
        outer, inner = dims[:2]
        self.side = Residual(outer, outer)
        self.down = Residual(outer, inner, stride=2)
        self.core = Hourglass(dims[1:]) if len(dims) > 2 else Residual(inner, inner)
        self.up = Residual(inner, outer)

    def forward(self, x):
        low = self.up(self.core(self.down(x)))
        return self.side(x) + F.interpolate(low, scale_factor=2, mode="nearest")


class RunningMax(nn.Module):
    """The largest value from a place to the end of its row or column; `backwards` says which end."""

    def __init__(self, dim, backwards):
        super().__init__()
        self.dim, self.backwards = dim, backwards

    def forward(self, x):
        if self.backwards:
            return x.flip(self.dim).cummax(self.dim).values.flip(self.dim)
        return x.cummax(self.dim).values


class CornerPool(nn.Module):
    def __init__(self, channels, hidden, vertical, horizontal):
        super().__init__()
        self.branch_v = nn.Sequential(ConvNorm(channels, hidden), vertical)
        self.branch_h = nn.Sequential(ConvNorm(channels, hidden), horizontal)
        self.merge = ConvNorm(hidden, channels, act=False)
        self.shortcut = ConvNorm(channels, channels, 1, act=False)
        self.out = ConvNorm(channels, channels)

    def forward(self, x):
        pooled = self.merge(self.branch_v(x) + self.branch_h(x))
        return self.out(F.relu(pooled + self.shortcut(x)))


def prediction(channels, outputs):
    return nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(), nn.Conv2d(channels, outputs, 1))


class CornerBranch(nn.Module):
    def __init__(self, channels, hidden, classes, vertical, horizontal):
        super().__init__()
        self.pool = CornerPool(channels, hidden, vertical, horizontal)
        self.heatmap = prediction(channels, classes)
        self.embedding = prediction(channels, 1)
        self.offset = prediction(channels, 2)
        nn.init.constant_(self.heatmap[-1].bias, -2.19)

    def forward(self, x):
        x = self.pool(x)
        return self.heatmap(x), self.embedding(x), self.offset(x)


class Model(nn.Module):
    def __init__(self, classes=3, dims=(12, 16), hidden=10):
        super().__init__()
        width = dims[0]
        self.stem = nn.Sequential(ConvNorm(3, 8, 7, stride=2), Residual(8, width))
        self.hourglass = Hourglass(dims)
        self.neck = ConvNorm(width, width)
        self.top_left = CornerBranch(width, hidden, classes, RunningMax(2, True), RunningMax(3, True))
        self.bottom_right = CornerBranch(width, hidden, classes, RunningMax(2, False), RunningMax(3, False))

    def forward(self, images):
        x = self.neck(self.hourglass(self.stem(images)))
        return self.top_left(x), self.bottom_right(x)


def at_corners(maps, index):
    """[B, C, H, W] and [B, T] -> [B, T, C]"""
    flat = maps.flatten(2)
    index = index.long().unsqueeze(1).expand(-1, flat.size(1), -1)
    return flat.gather(2, index).transpose(1, 2)


def heatmap_loss(logits, target):
    p = torch.sigmoid(logits).clamp(1e-4, 1 - 1e-4)
    corner = target == 1
    hit = p.log() * (1 - p).square()
    miss = (1 - p).log() * p.square() * (1 - target).pow(4)
    return -torch.where(corner, hit, miss).sum() / corner.sum()


def embedding_loss(first, second, valid):
    count = valid.sum(1)
    centre = (first + second) / 2
    spread = (first - centre).square() + (second - centre).square()
    pull = (spread * valid).sum(1) / (count + 1e-4)

    pairs = valid.unsqueeze(1) * valid.unsqueeze(2)
    closeness = F.relu(1 - (centre.unsqueeze(1) - centre.unsqueeze(2)).abs())
    closeness = closeness - 1 / (count + 1e-4)[:, None, None]
    push = (closeness * pairs).sum((1, 2)) / (count * (count - 1) + 1e-4)
    return pull.sum(), push.sum()


def offset_loss(predicted, target, valid):
    error = F.smooth_l1_loss(predicted, target, reduction="none").sum(-1)
    return (error * valid).sum() / (valid.sum() + 1e-4)


def loss(model, images, tl_heat, br_heat, tl_inds, br_inds, tl_offs, br_offs, tag_masks):
    top_left, bottom_right = model(images.permute(0, 3, 1, 2))
    heat_loss, off_loss, tags = 0, 0, []
    for (heat, tag, offset), target, index, target_offset in ((top_left, tl_heat, tl_inds, tl_offs), (bottom_right, br_heat, br_inds, br_offs)):
        heat_loss = heat_loss + heatmap_loss(heat, target.permute(0, 3, 1, 2))
        off_loss = off_loss + offset_loss(at_corners(offset, index), target_offset, tag_masks)
        tags.append(at_corners(tag, index).squeeze(-1))
    pull, push = embedding_loss(*tags, tag_masks)
    value = (heat_loss + 0.1 * pull + 0.1 * push + off_loss) / 2
    return value, {"tl_heatmap": top_left[0], "br_heatmap": bottom_right[0], "tl_tags": tags[0], "br_tags": tags[1]}
