"""BiSeNet, small: spatial path, context path with attention refinement, feature fusion and two auxiliary heads."""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm2d(nn.BatchNorm2d):
    """Running variance from the biased batch variance, eps 1e-3."""

    def __init__(self, channels):
        super().__init__(channels, eps=1e-3, momentum=0.1)

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                var, mean = torch.var_mean(x, dim=(0, 2, 3), unbiased=False)
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var, self.momentum)
            return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)
        return super().forward(x)


class ConvBNReLU(nn.Module):
    """With stride 2 the padding is on the right and bottom, as SAME has it for even sizes."""

    def __init__(self, in_chan, out_chan, ks=3, stride=1):
        super().__init__()
        self.pad = nn.ZeroPad2d((0, 1, 0, 1)) if stride == 2 else nn.Identity()
        self.conv = nn.Conv2d(in_chan, out_chan, ks, stride=stride, padding=ks // 2 if stride == 1 else 0, bias=False)
        self.bn = BatchNorm2d(out_chan)

    def forward(self, x):
        return F.relu(self.bn(self.conv(self.pad(x))))


class SegmentHead(nn.Module):
    def __init__(self, in_chan, mid_chan, n_classes):
        super().__init__()
        self.conv = ConvBNReLU(in_chan, mid_chan)
        self.conv_out = nn.Conv2d(mid_chan, n_classes, 1)

    def forward(self, x, size):
        x = self.conv_out(self.conv(x))
        return F.interpolate(x, size=size, mode="bilinear", align_corners=True)


class AttentionRefinementModule(nn.Module):
    def __init__(self, in_chan, out_chan):
        super().__init__()
        self.conv = ConvBNReLU(in_chan, out_chan)
        self.conv_atten = nn.Conv2d(out_chan, out_chan, 1, bias=False)
        self.bn_atten = BatchNorm2d(out_chan)

    def forward(self, x):
        feat = self.conv(x)
        atten = F.adaptive_avg_pool2d(feat, 1)
        atten = torch.sigmoid(self.bn_atten(self.conv_atten(atten)))
        return feat * atten


class ContextPath(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = ConvBNReLU(3, 8, stride=2)
        self.stage2 = ConvBNReLU(8, 12, stride=2)
        self.stage3 = ConvBNReLU(12, 16, stride=2)
        self.stage4 = ConvBNReLU(16, 20, stride=2)
        self.arm16 = AttentionRefinementModule(16, 12)
        self.arm32 = AttentionRefinementModule(20, 12)
        self.conv_avg = ConvBNReLU(20, 12, ks=1)
        self.conv_head32 = ConvBNReLU(12, 12)
        self.conv_head16 = ConvBNReLU(12, 12)

    def forward(self, x):
        feat16 = self.stage3(self.stage2(self.stem(x)))
        feat32 = self.stage4(feat16)
        avg = self.conv_avg(feat32.mean(dim=(2, 3), keepdim=True))
        up32 = F.interpolate(self.arm32(feat32) + avg, scale_factor=2, mode="nearest")
        up32 = self.conv_head32(up32)
        up16 = F.interpolate(self.arm16(feat16) + up32, scale_factor=2, mode="nearest")
        return self.conv_head16(up16), up32


class FeatureFusionModule(nn.Module):
    def __init__(self, in_chan, out_chan):
        super().__init__()
        self.convblk = ConvBNReLU(in_chan, out_chan, ks=1)
        self.squeeze = nn.Conv2d(out_chan, out_chan // 4, 1, bias=False)
        self.expand = nn.Conv2d(out_chan // 4, out_chan, 1, bias=False)

    def forward(self, fsp, fcp):
        feat = self.convblk(torch.cat([fsp, fcp], dim=1))
        atten = F.adaptive_avg_pool2d(feat, 1)
        atten = torch.sigmoid(self.expand(F.relu(self.squeeze(atten))))
        return feat * atten + feat


class BiSeNet(nn.Module):
    def __init__(self, n_classes=5):
        super().__init__()
        self.sp = nn.Sequential(ConvBNReLU(3, 8, stride=2), ConvBNReLU(8, 16, stride=2))
        self.cp = ContextPath()
        self.ffm = FeatureFusionModule(28, 16)
        self.head = SegmentHead(16, 12, n_classes)
        self.head_aux16 = SegmentHead(12, 8, n_classes)
        self.head_aux32 = SegmentHead(12, 8, n_classes)

    def forward(self, x):
        size = x.shape[2:]
        feat_cp16, feat_cp32 = self.cp(x)
        feat_sp = self.sp(x)
        feat_fuse = self.ffm(feat_sp, feat_cp16)
        logits = self.head(feat_fuse, size)
        aux16 = self.head_aux16(feat_cp16, size)
        aux32 = self.head_aux32(feat_cp32, size)
        return (logits, aux16, aux32), {"spatial": feat_sp, "context": feat_cp16, "fused": feat_fuse, "logits": logits}


def criterion(logits, target):
    return F.cross_entropy(logits, target, ignore_index=255)


def loss(model, image, label):
    image = image.permute(0, 3, 1, 2).contiguous()
    target = label.long()
    (logits, aux16, aux32), features = model(image)
    total = criterion(logits, target) + 0.4 * criterion(aux16, target) + 0.4 * criterion(aux32, target)
    return total, features


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def scheduler(optimizer, max_iter=10, power=0.9):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda it: (1 - min(it, max_iter) / max_iter) ** power)
