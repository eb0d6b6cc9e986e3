"""DANet on a small dilated backbone, with an auxiliary head; strided convolutions pad on the right and bottom only."""

import torch
from torch import nn
from torch.nn import functional as F

IGNORE_INDEX = 255


class BatchNorm2d(nn.BatchNorm2d):
    """The running variance follows the biased variance of the batch."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=(0, 2, 3), unbiased=False)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)


class ConvBNReLU(nn.Module):
    def __init__(self, in_channels, out_channels, stride=1, dilation=1):
        super().__init__()
        self.stride = stride
        padding = dilation if stride == 1 else 0
        self.conv = nn.Conv2d(in_channels, out_channels, 3, stride, padding, dilation, bias=False)
        self.bn = BatchNorm2d(out_channels, eps=1e-4, momentum=0.05)

    def forward(self, x):
        if self.stride > 1:
            x = F.pad(x, (0, 1, 0, 1))
        return F.relu(self.bn(self.conv(x)))


class PAM(nn.Module):
    """Position attention."""

    def __init__(self, in_dim):
        super().__init__()
        self.query_conv = nn.Conv2d(in_dim, in_dim // 8, 1)
        self.key_conv = nn.Conv2d(in_dim, in_dim // 8, 1)
        self.value_conv = nn.Conv2d(in_dim, in_dim, 1)
        self.gamma = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        query = self.query_conv(x).flatten(2).transpose(1, 2)
        key = self.key_conv(x).flatten(2)
        value = self.value_conv(x).flatten(2)
        attention = torch.softmax(torch.bmm(query, key), dim=-1)
        out = torch.bmm(value, attention.transpose(1, 2))
        return self.gamma * out.view_as(x) + x


class CAM(nn.Module):
    """Channel attention."""

    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        flat = x.flatten(2)
        energy = torch.bmm(flat, flat.transpose(1, 2))
        energy = energy.amax(dim=-1, keepdim=True) - energy
        attention = torch.softmax(energy, dim=-1)
        return self.gamma * torch.bmm(attention, flat).view_as(x) + x


class DANetHead(nn.Module):
    def __init__(self, in_channels, inter_channels, num_classes):
        super().__init__()
        self.conv5a = ConvBNReLU(in_channels, inter_channels)
        self.sa = PAM(inter_channels)
        self.conv5c = ConvBNReLU(in_channels, inter_channels)
        self.sc = CAM()
        self.conv8 = nn.Conv2d(inter_channels, num_classes, 1)

    def forward(self, x):
        sa_feat = self.sa(self.conv5a(x))
        sc_feat = self.sc(self.conv5c(x))
        return sa_feat, sc_feat, self.conv8(sa_feat + sc_feat)


class Model(nn.Module):
    def __init__(self, num_classes=7, size=(24, 20)):
        super().__init__()
        self.layer1 = ConvBNReLU(3, 10, stride=2)
        self.layer2 = ConvBNReLU(10, 16, stride=2)
        self.layer3 = ConvBNReLU(16, 18, dilation=2)
        self.head = DANetHead(18, 24, num_classes)
        self.auxlayer = nn.Conv2d(16, num_classes, 1)
        self.upsample = nn.Upsample(size, mode="bilinear", align_corners=True)

    def forward(self, x):
        c3 = self.layer2(self.layer1(x))
        c4 = self.layer3(c3)
        pam, cam, logits = self.head(c4)
        return {"c4": c4, "pam": pam, "cam": cam, "logits": self.upsample(logits)}, self.upsample(self.auxlayer(c3))


def loss(model, images, labels):
    out, aux_logits = model(images.permute(0, 3, 1, 2).contiguous())
    labels = labels.long()
    out["seg_loss"] = F.cross_entropy(out["logits"], labels, ignore_index=IGNORE_INDEX)
    out["aux_loss"] = F.cross_entropy(aux_logits, labels, ignore_index=IGNORE_INDEX)
    l2 = sum(m.weight.pow(2).sum() for m in model.modules() if isinstance(m, nn.Conv2d))
    return out["seg_loss"] + 0.4 * out["aux_loss"] + 1e-3 * 0.5 * l2, out


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=10, power=0.9)
