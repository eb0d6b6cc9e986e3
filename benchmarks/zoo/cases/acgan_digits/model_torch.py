"""AC-GAN in torch; both players are updated from the same weights."""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm2d(nn.BatchNorm2d):
    """Batch norm whose running variance is the biased one, as in the original."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=(0, 2, 3), unbiased=False)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)


class Generator(nn.Module):
    def __init__(self, latent=16, num_classes=10):
        super().__init__()
        self.label_embedding = nn.Embedding(num_classes, latent)
        self.fc = nn.Linear(latent, 16 * 4 * 4, bias=False)
        self.norm1 = BatchNorm2d(16, eps=1e-5, momentum=0.2)
        self.up1 = nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1, bias=False)
        self.norm2 = BatchNorm2d(8, eps=1e-5, momentum=0.2)
        self.up2 = nn.ConvTranspose2d(8, 1, 4, stride=2, padding=1)

    def forward(self, z, classes):
        hidden = z * self.label_embedding(classes)
        x = self.fc(hidden).view(-1, 16, 4, 4)
        x = F.relu(self.norm1(x))
        x = F.relu(self.norm2(self.up1(x)))
        return hidden, torch.tanh(self.up2(x))


class Discriminator(nn.Module):
    def __init__(self, num_classes=10):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.Conv2d(8, 16, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.Conv2d(16, 20, 3, padding=1), nn.LeakyReLU(0.2),
        )
        self.adversarial = nn.Linear(20, 1)
        self.digit = nn.Linear(20, num_classes)

    def forward(self, images):
        x = self.features(images).mean(dim=(2, 3))
        return self.adversarial(x), self.digit(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.netG = Generator()
        self.netD = Discriminator()

    def forward(self, images, noise, sampled):
        hidden, fake = self.netG(noise, sampled)
        return hidden, fake, self.netD(images), self.netD(fake.detach()), self.netD(fake)


def adversarial_loss(logits, target):
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, target))


def loss(model, images, labels, noise, sampled_labels):
    labels, sampled = labels.long(), sampled_labels.long()
    real = images.permute(0, 3, 1, 2) / 127.5 - 1.0
    hidden, fake, on_real, on_fake, on_generated = model(real, noise, sampled)

    d_source = adversarial_loss(on_real[0], 0.9) + adversarial_loss(on_fake[0], 0.0)
    d_aux = F.cross_entropy(on_real[1], labels) + F.cross_entropy(on_fake[1], sampled)
    g_loss = adversarial_loss(on_generated[0], 1.0) + F.cross_entropy(on_generated[1], sampled)
    return d_source + d_aux, {"g_loss": g_loss, "d_source": d_source, "d_aux": d_aux, "hidden": hidden, "fake": fake,
                              "real_aux": on_real[1], "fake_aux": on_generated[1]}
