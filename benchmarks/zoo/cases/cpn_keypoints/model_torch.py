import torch
from torch import nn
from torch.nn import functional as F

JOINTS = 6
OUTPUT_SHAPE = (16, 12)
TOP_K = 3


class BatchNorm2d(nn.BatchNorm2d):
    """Momentum 0.1 is slim's decay 0.9; the running variance follows the biased variance of the batch."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        n, keep = x.numel() // x.size(1), 1 - self.momentum
        unbiased = self.running_var.clone()
        out = F.batch_norm(x, self.running_mean, unbiased, self.weight, self.bias, True, self.momentum, self.eps)
        with torch.no_grad():
            moved = (unbiased - keep * self.running_var) * ((n - 1) / n)
            self.running_var.mul_(keep).add_(moved)
        return out


def conv_bn(inplanes, planes, kernel_size, stride=1):
    return [nn.Conv2d(inplanes, planes, kernel_size, stride=stride, padding=kernel_size // 2, bias=False), BatchNorm2d(planes)]


class Upsample(nn.Module):
    """TensorFlow 1's bilinear resizing, whose samples begin at the first pixel and end before the last."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        for dim, wanted in zip((2, 3), self.size):
            have = x.size(dim)
            at = torch.arange(wanted, dtype=x.dtype) * have / wanted
            low = at.floor().long()
            part = (at - low).view((-1, 1) if dim == 2 else (-1,))
            x = torch.lerp(x.index_select(dim, low), x.index_select(dim, (low + 1).clamp(max=have - 1)), part.expand(
                x.shape[:dim] + (wanted,) + x.shape[dim + 1:]))
        return x


class Bottleneck(nn.Module):
    def __init__(self, inplanes, planes, width, stride=1):
        super().__init__()
        self.conv1, self.bn1 = conv_bn(inplanes, width, 1)
        self.conv2, self.bn2 = conv_bn(width, width, 3, stride)
        self.conv3, self.bn3 = conv_bn(width, planes, 1)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = nn.Sequential(*conv_bn(inplanes, planes, 1, stride)) if inplanes != planes else nn.Identity()

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += self.downsample(x)
        return self.relu(out)


class Backbone(nn.Module):
    def __init__(self, stem=8, planes=(16, 24, 32)):
        super().__init__()
        self.stem = nn.Sequential(*conv_bn(3, stem, 3, stride=2), nn.ReLU(inplace=True))
        self.layer1 = Bottleneck(stem, planes[0], planes[0] // 4)
        self.layer2 = Bottleneck(planes[0], planes[1], planes[1] // 4, stride=2)
        self.layer3 = Bottleneck(planes[1], planes[2], planes[2] // 4, stride=2)

    def forward(self, x):
        c2 = self.layer1(self.stem(x))
        c3 = self.layer2(c2)
        return [self.layer3(c3), c3, c2]


class GlobalNet(nn.Module):
    """From coarse to fine: lateral maps, the coarser level on top of them, and a prediction of every level."""

    def __init__(self, channels, dim):
        super().__init__()
        self.laterals = nn.ModuleList([nn.Sequential(*conv_bn(c, dim, 1), nn.ReLU(inplace=True)) for c in channels])
        self.upsamples = nn.ModuleList([nn.Sequential(Upsample(size), nn.Conv2d(dim, dim, 1)) for size in ((8, 6), (16, 12))])
        self.predict = nn.ModuleList([nn.Sequential(*conv_bn(dim, dim, 1), nn.ReLU(inplace=True), *conv_bn(dim, JOINTS, 3),
                                                    Upsample(OUTPUT_SHAPE)) for _ in channels])

    def forward(self, xs):
        features, outs = [], []
        for i, x in enumerate(xs):
            feature = self.laterals[i](x)
            if i > 0:
                feature = feature + self.upsamples[i - 1](features[-1])
            features.append(feature)
            outs.append(self.predict[i](feature))
        return features, outs


class RefineNet(nn.Module):
    def __init__(self, dim, levels=3):
        super().__init__()
        self.cascade = nn.ModuleList([
            nn.Sequential(*(Bottleneck(dim, dim, dim // 2) for _ in range(levels - 1 - i)), Upsample(OUTPUT_SHAPE))
            for i in range(levels)])
        self.final_predict = nn.Sequential(Bottleneck(levels * dim, dim, dim // 2), *conv_bn(dim, JOINTS, 3))

    def forward(self, features):
        maps = [branch(x) for branch, x in zip(self.cascade, features)]
        return self.final_predict(torch.cat(maps[::-1], dim=1))


class Model(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.resnet = Backbone()
        self.global_net = GlobalNet((32, 24, 16), dim)
        self.refine_net = RefineNet(dim)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.xavier_uniform_(m.weight)

    def forward(self, image):
        blocks = self.resnet(image)
        features, outs = self.global_net(blocks)
        return blocks[0], features, outs, self.refine_net(features)


def ohkm(errors, top_k):
    hardest, _ = errors.topk(top_k, dim=1)
    return hardest.sum(dim=1).div(top_k).mean()


def loss(model, image, label11, label9, label7, valids):
    coarsest, features, outs, refined = model(image.permute(0, 3, 1, 2))
    # the labels come with the widest heatmaps first, and the first is the finest level's
    targets = [x.permute(0, 3, 1, 2) for x in (label7, label9, label11)]
    visible = (valids > 1.1).to(image.dtype)[:, :, None, None]
    global_loss = sum(F.mse_loss(out, target * visible) for out, target in zip(outs, targets)) / len(outs) / 2
    errors = F.mse_loss(refined, targets[0], reduction="none").mean(dim=(2, 3))
    refine_loss = ohkm(errors * (valids > 0.1), TOP_K)
    l2 = sum(m.weight.pow(2).sum() for m in model.modules() if isinstance(m, nn.Conv2d)) / 2
    return refine_loss + global_loss + 1e-3 * l2, {
        "block3": coarsest, "fine": features[-1], "coarse_out": outs[0], "refine_out": refined, "global_loss": global_loss,
        "refine_loss": refine_loss}


def rate(step):
    return 0.004 if step <= 1 else 0.001
