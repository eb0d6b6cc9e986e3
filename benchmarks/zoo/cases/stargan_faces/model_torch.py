"""StarGAN in torch, small: generator and discriminator with a domain classifier, WGAN-GP losses."""

import torch
from torch import nn
from torch.nn import functional as F


def norm(channels):
    return nn.InstanceNorm2d(channels, eps=1e-6, affine=True)


class ResidualBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(dim, dim, 3, padding=1, bias=False),
            norm(dim),
            nn.ReLU(),
            nn.Conv2d(dim, dim, 3, padding=1, bias=False),
            norm(dim),
        )

    def forward(self, x):
        return x + self.main(x)


class Generator(nn.Module):
    def __init__(self, conv_dim=6, c_dim=3, repeat_num=2):
        super().__init__()
        layers = [nn.Conv2d(3 + c_dim, conv_dim, 7, padding=3, bias=False), norm(conv_dim), nn.ReLU()]
        layers += [nn.Conv2d(conv_dim, 2 * conv_dim, 4, stride=2, padding=1, bias=False), norm(2 * conv_dim), nn.ReLU()]
        layers += [ResidualBlock(2 * conv_dim) for _ in range(repeat_num)]
        layers += [nn.ConvTranspose2d(2 * conv_dim, conv_dim, 4, stride=2, padding=1, bias=False), norm(conv_dim), nn.ReLU()]
        layers += [nn.Conv2d(conv_dim, 3, 7, padding=3, bias=False), nn.Tanh()]
        self.main = nn.Sequential(*layers)

    def forward(self, x, c):
        c = c[:, :, None, None].expand(-1, -1, x.size(2), x.size(3))
        return self.main(torch.cat([x, c], dim=1))


class Discriminator(nn.Module):
    def __init__(self, conv_dim=8, c_dim=3):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(3, conv_dim, 4, stride=2, padding=1),
            nn.LeakyReLU(0.01),
            nn.Conv2d(conv_dim, 2 * conv_dim, 4, stride=2, padding=1),
            nn.LeakyReLU(0.01),
        )
        self.src = nn.Conv2d(2 * conv_dim, 1, 3, padding=1, bias=False)
        self.cls = nn.Conv2d(2 * conv_dim, c_dim, 4, bias=False)

    def forward(self, x):
        h = self.main(x)
        return self.src(h), self.cls(h).flatten(1)


def classification_loss(logit, target):
    return F.binary_cross_entropy_with_logits(logit, target, reduction="sum") / logit.size(0)


class StarGAN(nn.Module):
    lambda_cls = 1.0
    lambda_rec = 10.0
    lambda_gp = 10.0

    def __init__(self):
        super().__init__()
        self.G = Generator()
        self.D = Discriminator()

    def gradient_penalty(self, real, fake, alpha):
        x_hat = (alpha * fake + (1 - alpha) * real).requires_grad_(True)
        out_src, _ = self.D(x_hat)
        grad = torch.autograd.grad(out_src.sum(), x_hat, create_graph=True)[0]
        norms = grad.flatten(1).square().sum(dim=1).sqrt()
        return (norms - 1).square().mean()

    def forward(self, x_real, label_org, label_trg, alpha):
        x_fake = self.G(x_real, label_trg)

        # discriminator
        src_real, cls_real = self.D(x_real)
        src_fake, _ = self.D(x_fake.detach())
        d_cls = classification_loss(cls_real, label_org)
        d_gp = self.gradient_penalty(x_real, x_fake.detach(), alpha)
        d_loss = src_fake.mean() - src_real.mean() + self.lambda_cls * d_cls + self.lambda_gp * d_gp

        # generator
        src_fake, cls_fake = self.D(x_fake)
        x_reconst = self.G(x_fake, label_org)
        g_cls = classification_loss(cls_fake, label_trg)
        g_rec = F.l1_loss(x_reconst, x_real)
        g_loss = -src_fake.mean() + self.lambda_cls * g_cls + self.lambda_rec * g_rec
        return d_loss, g_loss, x_fake, x_reconst, cls_real


def loss(model, real, label_org, label_trg, alpha):
    x_real = real.permute(0, 3, 1, 2).contiguous()
    d_loss, g_loss, fake, recon, cls = model(x_real, label_org, label_trg, alpha)
    return d_loss, {"g_loss": g_loss, "fake": fake, "recon": recon, "real_cls": cls}
