import torch
import torch.nn as nn
import torch.nn.functional as F

REAL_LABEL = 0.9
LAMBDA_X = 10.0
LAMBDA_Y = 8.0
LAMBDA_IDENTITY = 0.5


def nchw(images):
    return images.permute(0, 3, 1, 2)


def instance_norm(channels):
    return nn.InstanceNorm2d(channels, affine=True)


class ConvTransposeSame(nn.ConvTranspose2d):
    """Doubles the size as TensorFlow's SAME does: what is too much is cut off at the bottom and on the right."""

    def forward(self, x):
        return super().forward(x)[..., :-1, :-1]


class ResidualBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.conv1 = self._conv(dim)
        self.norm1 = instance_norm(dim)
        self.conv2 = self._conv(dim)
        self.norm2 = instance_norm(dim)

    @staticmethod
    def _conv(dim):
        return nn.Conv2d(dim, dim, 3, padding=1, padding_mode="reflect", bias=False)

    def forward(self, x):
        h = F.relu(self.norm1(self.conv1(x)))
        return x + self.norm2(self.conv2(h))


class Generator(nn.Module):
    def __init__(self, ngf=6, n_blocks=2):
        super().__init__()
        self.stem = nn.Conv2d(3, ngf, 5, padding=2, padding_mode="reflect", bias=False)
        self.stem_norm = instance_norm(ngf)
        self.down = nn.Conv2d(ngf, 2 * ngf, 3, stride=2, bias=False)
        self.down_norm = instance_norm(2 * ngf)
        self.blocks = nn.Sequential(*[ResidualBlock(2 * ngf) for _ in range(n_blocks)])
        self.up = ConvTransposeSame(2 * ngf, ngf, 3, stride=2, bias=False)
        self.up_norm = instance_norm(ngf)
        self.head = nn.Conv2d(ngf, 3, 5, padding=2, padding_mode="reflect")

    def forward(self, image):
        h = F.relu(self.stem_norm(self.stem(image)))
        h = F.relu(self.down_norm(self.down(F.pad(h, (0, 1, 0, 1)))))
        h = self.blocks(h)
        h = F.relu(self.up_norm(self.up(h)))
        return torch.tanh(self.head(h))


class PatchDiscriminator(nn.Module):
    def __init__(self, ndf=5):
        super().__init__()
        self.conv1 = nn.Conv2d(3, ndf, 4, stride=2, padding=1)
        self.act = nn.LeakyReLU(0.2)
        self.conv2 = nn.Conv2d(ndf, 2 * ndf, 4, stride=2, padding=1, bias=False)
        self.norm2 = instance_norm(2 * ndf)
        self.score = nn.Conv2d(2 * ndf, 1, 4)

    def forward(self, image):
        h = self.act(self.conv1(image))
        h = self.act(self.norm2(self.conv2(h)))
        return self.score(F.pad(h, (1, 2, 1, 2)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.G_XY = Generator()
        self.G_YX = Generator()
        self.D_X = PatchDiscriminator()
        self.D_Y = PatchDiscriminator()

    def forward(self, x, y):
        fake_y = self.G_XY(x)
        fake_x = self.G_YX(y)
        cycled_x = self.G_YX(fake_y)
        cycled_y = self.G_XY(fake_x)
        return {
            "fake_y": fake_y, "fake_x": fake_x, "cycled_x": cycled_x, "cycled_y": cycled_y,
            "same_y": self.G_XY(y), "same_x": self.G_YX(x),
            "score_y": self.D_Y(y), "score_fake_y": self.D_Y(fake_y),
            "score_x": self.D_X(x), "score_fake_x": self.D_X(fake_x),
        }


def lsgan(score, label):
    return (score - label).square().mean()


def loss(model, images_x, images_y):
    x, y = nchw(images_x), nchw(images_y)
    out = model(x, y)
    cycle = LAMBDA_X * F.l1_loss(out["cycled_x"], x) + LAMBDA_Y * F.l1_loss(out["cycled_y"], y)
    identity = LAMBDA_IDENTITY * (LAMBDA_Y * F.l1_loss(out["same_y"], y) + LAMBDA_X * F.l1_loss(out["same_x"], x))
    gan = lsgan(out["score_fake_y"], REAL_LABEL) + lsgan(out["score_fake_x"], REAL_LABEL)
    d_y = (lsgan(out["score_y"], REAL_LABEL) + lsgan(out["score_fake_y"], 0.0)) / 2
    d_x = (lsgan(out["score_x"], REAL_LABEL) + lsgan(out["score_fake_x"], 0.0)) / 2
    shown = {k: out[k] for k in ("fake_y", "fake_x", "cycled_x", "cycled_y", "score_fake_y", "score_fake_x")}
    return gan + cycle + identity, {**shown, "gan_loss": gan, "cycle_loss": cycle, "d_loss": d_y + d_x}
