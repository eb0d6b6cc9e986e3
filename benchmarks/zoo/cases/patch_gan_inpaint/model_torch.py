"""Inpainting GAN: a partial convolution, gated convolutions, contextual attention, and a patch discriminator."""

import torch
from torch import nn
from torch.nn import functional as F


class PartialConv2d(nn.Conv2d):
    """Sees what is valid only, and makes up for the rest of each window."""

    def forward(self, x, valid):
        k = self.kernel_size[0]
        with torch.no_grad():
            count = F.conv2d(valid, valid.new_ones(1, 1, k, k), padding=self.padding)
            updated = count.clamp(0, 1)
            ratio = k * k / (count + 1e-8) * updated
        out = F.conv2d(x * valid, self.weight, None, self.stride, self.padding)
        out = out * ratio
        return (out + self.bias.view(1, -1, 1, 1)) * updated


class GatedConv2d(nn.Module):
    def __init__(self, in_channels, out_channels, stride=1, dilation=1):
        super().__init__()
        self.stride = stride
        padding = dilation if stride == 1 else 0
        self.conv = nn.Conv2d(in_channels, 2 * out_channels, 3, stride=stride, padding=padding, dilation=dilation)

    def forward(self, x):
        if self.stride == 2:
            x = F.pad(x, (0, 1, 0, 1))
        feature, gate = self.conv(x).chunk(2, dim=1)
        return F.elu(feature) * torch.sigmoid(gate)


class ContextualAttention(nn.Module):
    def __init__(self, softmax_scale=10.0):
        super().__init__()
        self.softmax_scale = softmax_scale

    def forward(self, x, hole):
        places = x.flatten(2).transpose(1, 2)
        background = 1.0 - hole.flatten(2)
        unit = places / places.norm(dim=2, keepdim=True).clamp(min=1e-4)
        scores = places @ unit.transpose(1, 2) * background
        attention = F.softmax(scores * self.softmax_scale, dim=2) * background
        return (attention @ places).transpose(1, 2).unflatten(2, x.shape[2:])


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.pconv = PartialConv2d(3, 8, 5, padding=2)
        self.down = GatedConv2d(9, 14, stride=2)
        self.atrous = GatedConv2d(14, 14, dilation=2)
        self.attention = ContextualAttention()
        self.merge = GatedConv2d(28, 10)
        self.upsample = nn.Upsample(scale_factor=2, mode="nearest")
        self.up = GatedConv2d(10, 6)
        self.to_rgb = nn.Conv2d(6, 3, 3, padding=1)

    def forward(self, images, masks):
        x = F.elu(self.pconv(images, 1.0 - masks))
        x = self.atrous(self.down(torch.cat([x, masks], dim=1)))
        hole = F.interpolate(masks, size=x.shape[2:], mode="nearest")
        attended = self.attention(x, hole)
        x = self.merge(torch.cat([x, attended], dim=1))
        x = self.up(self.upsample(x))
        return attended, torch.tanh(self.to_rgb(x))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(4, 10, 5, stride=2), nn.Conv2d(10, 18, 5, stride=2)])
        self.patch = nn.Conv2d(18, 1, 3, padding=1)

    def forward(self, x):
        for conv in self.convs:
            x = F.leaky_relu(conv(F.pad(x, (1, 2, 1, 2))), 0.2)
        return self.patch(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = Generator()
        self.discriminator = Discriminator()

    def forward(self, images, masks):
        attended, predicted = self.generator(images, masks)
        complete = predicted * masks + images * (1.0 - masks)
        real = torch.cat([images, masks], dim=1)
        fake = torch.cat([complete, masks], dim=1)
        pos, neg = self.discriminator(torch.cat([real, fake])).chunk(2)
        return attended, predicted, pos, neg


def loss(model, images, masks):
    images, masks = images.permute(0, 3, 1, 2).contiguous(), masks.permute(0, 3, 1, 2).contiguous()
    attended, predicted, pos, neg = model(images, masks)
    d_loss = 0.5 * (F.relu(1.0 - pos).mean() + F.relu(1.0 + neg).mean())
    weights = masks + 0.2 * (1.0 - masks)
    l1_loss = ((images - predicted).abs() * weights).mean()
    g_loss = l1_loss - 0.3 * neg.mean()
    return g_loss, {"d_loss": d_loss, "l1_loss": l1_loss, "attended": attended, "predicted": predicted, "fake_patches": neg}
