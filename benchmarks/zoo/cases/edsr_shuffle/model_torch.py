"""EDSR-like generator and a frozen feature network for the perceptual loss."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class DepthToSpace(nn.Module):
    """tf.depth_to_space: channels are (row, column, colour), where nn.PixelShuffle has (colour, row, column)."""

    def __init__(self, block_size):
        super().__init__()
        self.block_size = block_size

    def forward(self, x):
        b, c, h, w = x.shape
        r = self.block_size
        x = x.view(b, r, r, c // r ** 2, h, w).permute(0, 3, 4, 1, 5, 2)
        return x.reshape(b, c // r ** 2, h * r, w * r)


class ResBlock(nn.Module):
    def __init__(self, n_feats, res_scale):
        super().__init__()
        self.conv1 = nn.Conv2d(n_feats, n_feats, 3, padding=1)
        self.act = nn.PReLU(n_feats)
        self.conv2 = nn.Conv2d(n_feats, n_feats, 3, padding=1)
        self.res_scale = res_scale

    def forward(self, x):
        return x + self.res_scale * self.conv2(self.act(self.conv1(x)))


class Generator(nn.Module):
    def __init__(self, n_feats=16, n_resblocks=2, scale=2, res_scale=0.1):
        super().__init__()
        self.scale = scale
        self.register_buffer("rgb_mean", torch.tensor([0.4488, 0.4371, 0.4040], dtype=torch.float64).view(1, 3, 1, 1))
        self.head = nn.Sequential(nn.Conv2d(3, n_feats, 3, padding=1), nn.PReLU(n_feats))
        self.blocks = nn.Sequential(*[ResBlock(n_feats, res_scale) for _ in range(n_resblocks)])
        self.body_conv = nn.Conv2d(n_feats, n_feats, 3, padding=1)
        self.tail = nn.Conv2d(n_feats, 3 * scale ** 2, 3, padding=1)
        self.upsample = DepthToSpace(scale)

    def forward(self, low):
        mean = self.rgb_mean.to(low.dtype)
        x = low - mean
        head = self.head(x)
        body = self.body_conv(self.blocks(head)) + head
        anchor = x.repeat(1, self.scale ** 2, 1, 1)
        return body, self.upsample(self.tail(body) + anchor) + mean


class VGG(nn.Module):
    """Takes RGB in [0, 1]; the weights are those of the Caffe model, so BGR from 0 to 255, less the mean."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([103.939, 116.779, 123.68], dtype=torch.float64).view(1, 3, 1, 1))
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(),
            nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 12, 3, padding=1),
        )
        for parameter in self.parameters():
            parameter.requires_grad = False

    def forward(self, x):
        x = x[:, [2, 1, 0]] * 255.0 - self.mean.to(x.dtype)
        return self.features(x) / 12.75


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = Generator()
        self.vgg = VGG()

    def forward(self, low, high):
        body, fake = self.generator(low)
        fake_features = self.vgg(fake)
        with torch.no_grad():
            real_features = self.vgg(high)
        return body, fake, fake_features, real_features


def loss(model, low, high):
    low, high = low.permute(0, 3, 1, 2), high.permute(0, 3, 1, 2)
    body, fake, fake_features, real_features = model(low.contiguous(), high.contiguous())
    pixel = F.l1_loss(fake, high)
    content = (fake_features - real_features).pow(2).sum(dim=1).mean()
    total = pixel + 0.01 * content
    return total, {"body": body, "fake": fake, "fake_features": fake_features, "pixel": pixel, "content": content}


class Adam(torch.optim.Adam):
    """TensorFlow's epsilon stands outside the bias correction: torch's has to shrink with it."""

    def __init__(self, params, lr, betas, epsilon):
        super().__init__(params, lr=lr, betas=betas, eps=epsilon)
        self.epsilon, self.updates = epsilon, 0

    @torch.no_grad()
    def step(self, closure=None):
        self.updates += 1
        for group in self.param_groups:
            group["eps"] = self.epsilon / math.sqrt(1 - group["betas"][1] ** self.updates)
        return super().step(closure)


def optimizer(model):
    trained = [p for p in model.parameters() if p.requires_grad]
    return Adam(trained, lr=1e-3, betas=(0.9, 0.99), epsilon=1e-6)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
