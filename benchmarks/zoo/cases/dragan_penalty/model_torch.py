import torch
from torch import nn
from torch.nn import functional as F

LEAK = 0.2
LAMBDA = 0.25


class _BatchNorm:
    """Keeps the biased variance, as TensorFlow does where its batch norm is not fused."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        axes = [0, *range(2, x.dim())]
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=axes, unbiased=False)
            self.running_mean.mul_(1 - self.momentum).add_(mean, alpha=self.momentum)
            self.running_var.mul_(1 - self.momentum).add_(var, alpha=self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)


class BatchNorm1d(_BatchNorm, nn.BatchNorm1d):
    pass


class BatchNorm2d(_BatchNorm, nn.BatchNorm2d):
    pass


class Generator(nn.Module):
    def __init__(self, z_dim=10, size=12):
        super().__init__()
        self.start = size // 4
        self.fc = nn.Sequential(
            nn.Linear(z_dim, 32), BatchNorm1d(32), nn.ReLU(),
            nn.Linear(32, 12 * self.start ** 2), BatchNorm1d(12 * self.start ** 2), nn.ReLU(),
        )
        self.deconv = nn.Sequential(
            nn.ConvTranspose2d(12, 6, 4, 2, 1), BatchNorm2d(6), nn.ReLU(),
            nn.ConvTranspose2d(6, 1, 4, 2, 1), nn.Sigmoid(),
        )

    def forward(self, z):
        x = self.fc(z).view(-1, 12, self.start, self.start)
        return self.deconv(x)


class Discriminator(nn.Module):
    def __init__(self, size=12):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 6, 4, 2, 1), nn.LeakyReLU(LEAK),
            nn.Conv2d(6, 12, 4, 2, 1), nn.LeakyReLU(LEAK),
        )
        self.fc = nn.Sequential(nn.Linear(12 * (size // 4) ** 2, 32), nn.LeakyReLU(LEAK), nn.Linear(32, 1))

    def forward(self, x):
        return self.fc(self.conv(x).flatten(1))


def initialize_weights(net):
    for m in net.modules():
        if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d, nn.Linear)):
            nn.init.normal_(m.weight, 0, 0.02)
            nn.init.zeros_(m.bias)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.G = Generator()
        self.D = Discriminator()
        for m in self.modules():
            if isinstance(m, nn.modules.batchnorm._BatchNorm):
                m.momentum = 0.1
        initialize_weights(self)


def bce(logits, real):
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, real))


def gradient_penalty(D, x, noise, alpha):
    x_p = x + 0.5 * x.std(correction=0) * noise
    interpolates = (x + alpha * (x_p - x)).requires_grad_(True)
    pred_hat = torch.sigmoid(D(interpolates))
    gradients = torch.autograd.grad(pred_hat, interpolates, grad_outputs=torch.ones_like(pred_hat), create_graph=True)[0]
    norms = gradients.flatten(1).norm(2, dim=1)
    return pred_hat, ((norms - 1) ** 2).mean()


def loss(model, images, z, noise, alpha):
    x, noise = images.permute(0, 3, 1, 2), noise.permute(0, 3, 1, 2)
    fake = model.G(z)
    real_logits, fake_logits = model.D(x), model.D(fake)
    pred_hat, penalty = gradient_penalty(model.D, x, noise, alpha)
    d_loss = bce(real_logits, 1.0) + bce(fake_logits, 0.0) + LAMBDA * penalty
    g_loss = bce(fake_logits, 1.0)
    return g_loss, {"d_loss": d_loss, "fake": fake, "d_real_logits": real_logits, "d_fake_logits": fake_logits,
                    "d_inter": pred_hat, "gradient_penalty": penalty}
