import torch
from torch import nn
from torch.nn import functional as F


def actvn(x):
    return F.leaky_relu(x, 2e-1)


class ResnetBlock(nn.Module):
    def __init__(self, fin, fout):
        super().__init__()
        fhidden = min(fin, fout)
        self.learned_shortcut = fin != fout
        self.conv_0 = nn.Conv2d(fin, fhidden, 3, stride=1, padding=1)
        self.conv_1 = nn.Conv2d(fhidden, fout, 3, stride=1, padding=1)
        if self.learned_shortcut:
            self.conv_s = nn.Conv2d(fin, fout, 1, bias=False)

    def forward(self, x):
        x_s = self.conv_s(x) if self.learned_shortcut else x
        dx = self.conv_0(actvn(x))
        dx = self.conv_1(actvn(dx))
        return x_s + 0.1 * dx


class Generator(nn.Module):
    def __init__(self, z_dim=8, nlabels=4, embed_size=6, s0=4, nf=8):
        super().__init__()
        self.s0 = s0
        self.embedding = nn.Embedding(nlabels, embed_size)
        # what comes out is numbered row by row with the channels last
        self.fc = nn.Linear(z_dim + embed_size, s0 * s0 * 2 * nf)
        self.resnet = nn.Sequential(
            ResnetBlock(2 * nf, 2 * nf),
            nn.Upsample(scale_factor=2),
            ResnetBlock(2 * nf, nf),
            nn.Upsample(scale_factor=2),
            ResnetBlock(nf, nf),
        )
        self.conv_img = nn.Conv2d(nf, 3, 3, padding=1)

    def forward(self, z, y):
        yembed = self.embedding(y)
        yembed = yembed / yembed.norm(p=2, dim=1, keepdim=True)
        out = self.fc(torch.cat([z, yembed], dim=1))
        out = out.view(z.size(0), self.s0, self.s0, -1).permute(0, 3, 1, 2)
        out = self.resnet(out)
        return torch.tanh(self.conv_img(actvn(out)))


class Discriminator(nn.Module):
    def __init__(self, nlabels=4, s0=4, nf=8):
        super().__init__()
        self.conv_img = nn.Conv2d(3, nf, 3, padding=1)
        self.resnet = nn.Sequential(
            ResnetBlock(nf, nf),
            nn.AvgPool2d(2),
            ResnetBlock(nf, 2 * nf),
            nn.AvgPool2d(2),
            ResnetBlock(2 * nf, 2 * nf),
        )
        self.fc = nn.Linear(s0 * s0 * 2 * nf, nlabels)

    def forward(self, x, y):
        out = self.resnet(self.conv_img(x))
        out = actvn(out).permute(0, 2, 3, 1).flatten(1)
        out = self.fc(out)
        return out[torch.arange(y.size(0)), y]


def compute_grad2(d_out, x_in):
    grad, = torch.autograd.grad(outputs=d_out.sum(), inputs=x_in, create_graph=True)
    return grad.pow(2).flatten(1).sum(1)


class GAN(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = Generator()
        self.discriminator = Discriminator()

    def forward(self, z, real, y):
        real.requires_grad_()
        d_real = self.discriminator(real, y)
        reg = compute_grad2(d_real, real).mean()
        fake = self.generator(z, y)
        d_fake = self.discriminator(fake, y)
        return fake, d_real, d_fake, reg


def loss(model, z, real, labels):
    fake, d_real, d_fake, reg = model(z, real.permute(0, 3, 1, 2).contiguous(), labels.long())
    dloss_real = F.binary_cross_entropy_with_logits(d_real, torch.ones_like(d_real))
    dloss_fake = F.binary_cross_entropy_with_logits(d_fake, torch.zeros_like(d_fake))
    d_loss = dloss_real + dloss_fake + 10.0 * 0.5 * reg
    g_loss = F.binary_cross_entropy_with_logits(d_fake, torch.ones_like(d_fake))
    return g_loss, {"d_loss": d_loss, "reg": reg, "fake": fake, "d_real": d_real, "d_fake": d_fake}
