"""Stage I of StackGAN for small pictures: conditioning augmentation, generator and matching-aware discriminator."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ConditioningAugmentation(nn.Module):
    def __init__(self, embedding, dim):
        super().__init__()
        self.fc = nn.Linear(embedding, 2 * dim)

    def forward(self, text, noise):
        mu, log_sigma = F.leaky_relu(self.fc(text), 0.2).chunk(2, dim=1)
        return mu + log_sigma.exp() * noise, mu, log_sigma


def batch_norm(channels):
    # the statistics are always those of the batch
    return nn.BatchNorm2d(channels, track_running_stats=False)


class Generator(nn.Module):
    def __init__(self, code, width=4):
        super().__init__()
        self.fc = nn.Linear(code, 16 * 4 * width)
        self.body = nn.Sequential(
            batch_norm(4 * width), nn.ReLU(),
            nn.Upsample(scale_factor=2, mode="nearest"),
            nn.Conv2d(4 * width, 2 * width, 3, padding=1, bias=False), batch_norm(2 * width), nn.ReLU(),
            nn.Upsample(scale_factor=2, mode="nearest"),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1, bias=False), batch_norm(2 * width), nn.ReLU(),
            nn.Conv2d(2 * width, 3, 3, padding=1), nn.Tanh())

    def forward(self, code):
        return self.body(self.fc(code).view(len(code), -1, 4, 4))


class Discriminator(nn.Module):
    def __init__(self, embedding, condition, width=8):
        super().__init__()
        self.encode = nn.Sequential(
            nn.Conv2d(3, width, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.Conv2d(width, 2 * width, 4, stride=2, padding=1), nn.LeakyReLU(0.2))
        self.context = nn.Sequential(nn.Linear(embedding, condition), nn.LeakyReLU(negative_slope=0.2))
        self.joint = nn.Sequential(nn.Conv2d(2 * width + condition, 2 * width, 1), nn.LeakyReLU(0.2),
                                   nn.Conv2d(2 * width, 1, 4))

    def forward(self, image, text):
        x = self.encode(image)
        c = self.context(text)[:, :, None, None].expand(-1, -1, 4, 4)
        return self.joint(torch.cat([x, c], dim=1)).flatten()


class Model(nn.Module):
    def __init__(self, embedding=20, noise=6, condition=8):
        super().__init__()
        self.augment = ConditioningAugmentation(embedding, condition)
        self.generator = Generator(condition + noise)
        self.discriminator = Discriminator(embedding, condition)
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Conv2d)):
                nn.init.trunc_normal_(m.weight, std=0.1, a=-0.2, b=0.2)
                if m.bias is not None:
                    nn.init.zeros_(m.bias)

    def forward(self, images, wrong_images, embeddings, z, epsilon):
        c, mu, log_sigma = self.augment(embeddings, epsilon)
        fake = self.generator(torch.cat([c, z], dim=1))
        real = self.discriminator(images.permute(0, 3, 1, 2), embeddings)
        wrong = self.discriminator(wrong_images.permute(0, 3, 1, 2), embeddings)
        return fake, real, wrong, self.discriminator(fake, embeddings), mu, log_sigma


def adversarial(logits, target):
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, target))


def kl_divergence(mu, log_sigma):
    return (-log_sigma + 0.5 * ((2 * log_sigma).exp() + mu.square() - 1)).mean()


def loss(model, images, wrong_images, embeddings, z, epsilon):
    fake, real_logit, wrong_logit, fake_logit, mu, log_sigma = model(images, wrong_images, embeddings, z, epsilon)
    kl = kl_divergence(mu, log_sigma)
    d_loss = adversarial(real_logit, 1.0) + (adversarial(wrong_logit, 0.0) + adversarial(fake_logit, 0.0)) / 2
    g_loss = adversarial(fake_logit, 1.0) + 2.0 * kl
    return g_loss, {"d_loss": d_loss, "kl_loss": kl, "fake": fake, "real_logit": real_logit,
                    "wrong_logit": wrong_logit, "fake_logit": fake_logit}
