"""PSPNet with a small dilated ResNet; where the stem strides it pads on the right and at the bottom, as the original does."""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm2d(nn.BatchNorm2d):
    """Batch norm whose running variance follows the biased variance of the batch."""

    def __init__(self, num_features):
        super().__init__(num_features, eps=1e-5, momentum=0.05)

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=(0, 2, 3), unbiased=False)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)


class ConvBNReLU(nn.Sequential):
    def __init__(self, inplanes, planes, kernel_size, stride=1, padding=0):
        super().__init__(
            nn.Conv2d(inplanes, planes, kernel_size, stride, padding, bias=False), BatchNorm2d(planes), nn.ReLU()
        )


class Bottleneck(nn.Module):
    def __init__(self, inplanes, width, planes, dilation=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, width, 1, bias=False)
        self.bn1 = BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=dilation, dilation=dilation, bias=False)
        self.bn2 = BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, planes, 1, bias=False)
        self.bn3 = BatchNorm2d(planes)
        self.downsample = nn.Sequential(nn.Conv2d(inplanes, planes, 1, bias=False), BatchNorm2d(planes))

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return F.relu(out + self.downsample(x))


class PPM(nn.Module):
    def __init__(self, in_dim, reduction_dim, bins):
        super().__init__()
        self.features = nn.ModuleList(
            nn.Sequential(nn.AdaptiveAvgPool2d(bin), ConvBNReLU(in_dim, reduction_dim, 1)) for bin in bins
        )

    def forward(self, x):
        out = [x]
        for feature in self.features:
            out.append(F.interpolate(feature(x), x.shape[2:], mode="bilinear", align_corners=True))
        return torch.cat(out, 1)


class Stem(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = ConvBNReLU(3, 8, 3, stride=2)
        self.conv2 = ConvBNReLU(8, 10, 3, padding=1)
        self.maxpool = nn.MaxPool2d(3, stride=2)

    def forward(self, x):
        x = self.conv2(self.conv1(F.pad(x, (0, 1, 0, 1))))
        # a ReLU stands in front of the pooling: zeros are as good as minus infinity
        return self.maxpool(F.pad(x, (0, 1, 0, 1)))


class Model(nn.Module):
    def __init__(self, classes=7, bins=(1, 2, 3, 6)):
        super().__init__()
        self.stem = Stem()
        self.layer3 = Bottleneck(10, 9, 16)
        self.layer4 = Bottleneck(16, 11, 20, dilation=2)
        self.ppm = PPM(20, 6, bins)
        self.cls = nn.Sequential(ConvBNReLU(20 + 6 * len(bins), 14, 3, padding=1), nn.Conv2d(14, classes, 1))
        self.aux = nn.Sequential(ConvBNReLU(16, 12, 3, padding=1), nn.Conv2d(12, classes, 1))

    def forward(self, x):
        size = x.shape[2:]
        conv4 = self.layer3(self.stem(x))
        conv5 = self.layer4(conv4)
        logits = F.interpolate(self.cls(self.ppm(conv5)), size, mode="bilinear", align_corners=True)
        aux_logits = F.interpolate(self.aux(conv4), size, mode="bilinear", align_corners=True)
        return conv4, conv5, logits, aux_logits


def loss(model, images, labels):
    conv4, conv5, logits, aux_logits = model(images.permute(0, 3, 1, 2).contiguous())
    target = labels.long()
    main_loss = F.cross_entropy(logits, target, ignore_index=255)
    aux_loss = F.cross_entropy(aux_logits, target, ignore_index=255)
    l2 = sum(p.square().sum() for p in model.parameters() if p.dim() == 4) / 2
    total = main_loss + 0.4 * aux_loss + 1e-3 * l2
    return total, {"conv4": conv4, "conv5": conv5, "logits": logits, "main_loss": main_loss, "aux_loss": aux_loss}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)


def poly(step):
    return 0.02 * (1 - min(step, 8) / 8) ** 0.9
