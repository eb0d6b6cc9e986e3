"""Inception v3 for PyTorch, small, with batch norm as the TensorFlow original has it: no gamma, biased variance."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class BatchNormNoScale(nn.Module):
    def __init__(self, num_features, eps=0.001, momentum=0.03):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.bias = nn.Parameter(torch.zeros(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))

    def forward(self, x):
        if self.training:
            mean = x.mean(dim=(0, 2, 3))
            var = x.var(dim=(0, 2, 3), unbiased=False)
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var, self.momentum)
        else:
            mean, var = self.running_mean, self.running_var
        scale = torch.rsqrt(var + self.eps)
        return x * scale[:, None, None] + (self.bias - mean * scale)[:, None, None]


class BasicConv2d(nn.Module):
    def __init__(self, in_channels, out_channels, **kwargs):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, bias=False, **kwargs)
        self.bn = BatchNormNoScale(out_channels)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)), inplace=True)


def avg_pool(x):
    """TensorFlow's SAME average does not count the border."""
    return F.avg_pool2d(x, kernel_size=3, stride=1, padding=1, count_include_pad=False)


class InceptionA(nn.Module):
    def __init__(self, in_channels, pool_features):
        super().__init__()
        self.branch1x1 = BasicConv2d(in_channels, 8, kernel_size=1)
        self.branch5x5_1 = BasicConv2d(in_channels, 6, kernel_size=1)
        self.branch5x5_2 = BasicConv2d(6, 10, kernel_size=5, padding=2)
        self.branch3x3dbl_1 = BasicConv2d(in_channels, 6, kernel_size=1)
        self.branch3x3dbl_2 = BasicConv2d(6, 9, kernel_size=3, padding=1)
        self.branch3x3dbl_3 = BasicConv2d(9, 9, kernel_size=3, padding=1)
        self.branch_pool = BasicConv2d(in_channels, pool_features, kernel_size=1)

    def forward(self, x):
        branch1x1 = self.branch1x1(x)
        branch5x5 = self.branch5x5_2(self.branch5x5_1(x))
        branch3x3dbl = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        branch_pool = self.branch_pool(avg_pool(x))
        return torch.cat([branch1x1, branch5x5, branch3x3dbl, branch_pool], 1)


class InceptionB(nn.Module):
    def __init__(self, in_channels):
        super().__init__()
        self.branch3x3 = BasicConv2d(in_channels, 12, kernel_size=3, stride=2)
        self.branch3x3dbl_1 = BasicConv2d(in_channels, 8, kernel_size=1)
        self.branch3x3dbl_2 = BasicConv2d(8, 10, kernel_size=3, padding=1)
        self.branch3x3dbl_3 = BasicConv2d(10, 12, kernel_size=3, stride=2)

    def forward(self, x):
        branch3x3 = self.branch3x3(x)
        branch3x3dbl = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        branch_pool = F.max_pool2d(x, kernel_size=3, stride=2)
        return torch.cat([branch3x3, branch3x3dbl, branch_pool], 1)


class InceptionC(nn.Module):
    def __init__(self, in_channels, channels_7x7):
        super().__init__()
        c7 = channels_7x7
        self.branch1x1 = BasicConv2d(in_channels, 12, kernel_size=1)
        self.branch7x7_1 = BasicConv2d(in_channels, c7, kernel_size=1)
        self.branch7x7_2 = BasicConv2d(c7, c7, kernel_size=(1, 7), padding=(0, 3))
        self.branch7x7_3 = BasicConv2d(c7, 12, kernel_size=(7, 1), padding=(3, 0))
        self.branch_pool = BasicConv2d(in_channels, 12, kernel_size=1)

    def forward(self, x):
        branch1x1 = self.branch1x1(x)
        branch7x7 = self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x)))
        branch_pool = self.branch_pool(avg_pool(x))
        return torch.cat([branch1x1, branch7x7, branch_pool], 1)


class InceptionE(nn.Module):
    def __init__(self, in_channels):
        super().__init__()
        self.branch1x1 = BasicConv2d(in_channels, 14, kernel_size=1)
        self.branch3x3_1 = BasicConv2d(in_channels, 10, kernel_size=1)
        self.branch3x3_2a = BasicConv2d(10, 10, kernel_size=(1, 3), padding=(0, 1))
        self.branch3x3_2b = BasicConv2d(10, 10, kernel_size=(3, 1), padding=(1, 0))
        self.branch_pool = BasicConv2d(in_channels, 8, kernel_size=1)

    def forward(self, x):
        branch1x1 = self.branch1x1(x)
        branch3x3 = self.branch3x3_1(x)
        branch3x3_a = self.branch3x3_2a(branch3x3)
        branch3x3_b = self.branch3x3_2b(branch3x3)
        branch_pool = self.branch_pool(avg_pool(x))
        return torch.cat([branch1x1, branch3x3_a, branch3x3_b, branch_pool], 1)


class InceptionAux(nn.Module):
    def __init__(self, in_channels, num_classes):
        super().__init__()
        self.conv0 = BasicConv2d(in_channels, 10, kernel_size=1)
        self.conv1 = BasicConv2d(10, 16, kernel_size=2)
        self.fc = nn.Linear(16, num_classes)

    def forward(self, x):
        x = F.avg_pool2d(x, kernel_size=2, stride=2)
        x = self.conv1(self.conv0(x))
        return self.fc(torch.flatten(x, 1))


class Inception3(nn.Module):
    def __init__(self, num_classes=6):
        super().__init__()
        self.Conv2d_1a_3x3 = BasicConv2d(3, 8, kernel_size=3, stride=2)
        self.Conv2d_2a_3x3 = BasicConv2d(8, 8, kernel_size=3)
        self.Conv2d_2b_3x3 = BasicConv2d(8, 12, kernel_size=3, padding=1)
        self.Mixed_a = InceptionA(12, pool_features=5)
        self.Mixed_b = InceptionB(32)
        self.Mixed_c = InceptionC(56, channels_7x7=8)
        self.AuxLogits = InceptionAux(36, num_classes)
        self.Mixed_d = InceptionE(36)
        self.fc = nn.Linear(42, num_classes)
        for m in self.modules():
            if isinstance(m, (nn.Conv2d, nn.Linear)):
                nn.init.trunc_normal_(m.weight, std=0.1)

    def forward(self, x):
        x = (x - 0.5) * 2.0
        x = self.Conv2d_1a_3x3(x)
        x = self.Conv2d_2a_3x3(x)
        x = self.Conv2d_2b_3x3(x)
        x = F.max_pool2d(x, kernel_size=3, stride=2)
        mixed_a = self.Mixed_a(x)
        mixed_c = self.Mixed_c(self.Mixed_b(mixed_a))
        aux = self.AuxLogits(mixed_c) if self.training else None
        pool = self.Mixed_d(mixed_c).mean(dim=(2, 3))
        return mixed_a, mixed_c, aux, pool, self.fc(pool)


def loss(model, images, labels):
    mixed_a, mixed_c, aux_logits, pool, logits = model(images.permute(0, 3, 1, 2))
    labels = labels.long()
    outputs = {"mixed_a": mixed_a, "mixed_c": mixed_c, "pool": pool, "logits": logits}
    total = F.cross_entropy(logits, labels, label_smoothing=0.1)
    if aux_logits is not None:
        total = total + 0.4 * F.cross_entropy(aux_logits, labels, label_smoothing=0.1)
        outputs["aux_logits"] = aux_logits
    weights = [p for name, p in model.named_parameters() if name.endswith("weight")]
    return total + 0.0004 * sum(w.square().sum() / 2 for w in weights), outputs
