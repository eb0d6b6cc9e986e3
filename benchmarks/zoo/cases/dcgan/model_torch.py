"""DCGAN in PyTorch; both networks in one module, so that one DistributedDataParallel holds them."""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm2d(nn.BatchNorm2d):
    """Its running variance is the batch's own, without Bessel's factor."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            variance, mean = torch.var_mean(x, (0, 2, 3), correction=0)
            self.running_mean.copy_(torch.lerp(self.running_mean, mean, self.momentum))
            self.running_var.copy_(torch.lerp(self.running_var, variance, self.momentum))
        return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)


class SameConvTranspose2d(nn.ConvTranspose2d):
    """5x5 at stride 2 to exactly twice the size: TensorFlow cuts one off before and two off behind."""

    def __init__(self, in_channels, out_channels):
        super().__init__(in_channels, out_channels, kernel_size=5, stride=2)

    def forward(self, x):
        return super().forward(x)[:, :, 1:-2, 1:-2]


class Generator(nn.Module):
    def __init__(self, nz=10, ngf=8):
        super().__init__()
        self.project = nn.Linear(nz, ngf * 2 * 4 * 4)
        self.bn0 = BatchNorm2d(ngf * 2, eps=1e-5, momentum=0.1)
        self.main = nn.Sequential(
            SameConvTranspose2d(ngf * 2, ngf),
            BatchNorm2d(ngf),
            nn.ReLU(True),
            SameConvTranspose2d(ngf, 1),
            nn.Tanh(),
        )

    def forward(self, z):
        x = self.project(z).view(-1, 4, 4, self.bn0.num_features).permute(0, 3, 1, 2).contiguous()
        x = F.relu(self.bn0(x))
        return self.main(x), x


class Discriminator(nn.Module):
    def __init__(self, ndf=8):
        super().__init__()
        self.main = nn.Sequential(
            nn.ZeroPad2d((1, 2, 1, 2)),
            nn.Conv2d(1, ndf, 5, stride=2),
            nn.LeakyReLU(0.2),
            nn.ZeroPad2d((1, 2, 1, 2)),
            nn.Conv2d(ndf, ndf * 2, 5, stride=2),
            nn.LeakyReLU(0.2),
        )
        self.classifier = nn.Linear(ndf * 2 * 4 * 4, 1)

    def forward(self, x):
        features = self.main(x)
        return self.classifier(features.permute(0, 2, 3, 1).flatten(1)), features


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.netG = Generator()
        self.netD = Discriminator()

    def forward(self, images, z):
        fake, h0 = self.netG(z)
        real_logits, features = self.netD(images)
        fake_logits, _ = self.netD(fake)
        return {"h0": h0, "G": fake, "features": features, "D_logits": real_logits, "D_logits_": fake_logits}


def bce(logits, target):
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, target))


def loss(model, images, z):
    out = model(images.permute(0, 3, 1, 2).contiguous(), z)
    out["d_loss_real"] = bce(out["D_logits"], 0.9)
    out["d_loss_fake"] = bce(out["D_logits_"], 0.0)
    out["g_loss"] = bce(out["D_logits_"], 1.0)
    return out["d_loss_real"] + out["d_loss_fake"], out
