import torch
from torch import nn
from torch.nn import functional as F


class DownConv(nn.Conv1d):
    """A convolution of stride 2 that halves the length: the odd one of the padding is on the right."""

    def __init__(self, in_channels, out_channels, bias=True):
        super().__init__(in_channels, out_channels, kernel_size=9, stride=2, bias=bias)

    def forward(self, x):
        return super().forward(F.pad(x, (3, 4)))


class UpConv(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.ConvTranspose1d(in_channels, out_channels, kernel_size=9, stride=2, padding=3)

    def forward(self, x):
        return self.conv(x)[..., :-1]


class VirtualBatchNorm1d(nn.Module):
    """Normalises the reference batch by itself, a later one by a mixture of its own statistics and the reference's."""

    def __init__(self, num_features, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.gamma = nn.Parameter(torch.ones(num_features, 1).normal_(1.0, 0.02))
        self.beta = nn.Parameter(torch.zeros(num_features, 1))

    def forward(self, x, ref=None):
        mean = x.mean(dim=(0, 2), keepdim=True)
        mean_sq = x.square().mean(dim=(0, 2), keepdim=True)
        if ref is not None:
            coeff = 1.0 / (x.size(0) + 1.0)
            mean = coeff * mean + (1.0 - coeff) * ref[0]
            mean_sq = coeff * mean_sq + (1.0 - coeff) * ref[1]
        out = (x - mean) / torch.sqrt(self.eps + mean_sq - mean.square())
        return out * self.gamma + self.beta, (mean, mean_sq)


class Generator(nn.Module):
    def __init__(self, depths=(4, 8, 12)):
        super().__init__()
        self.enc = nn.ModuleList(DownConv(i, o) for i, o in zip((1,) + depths, depths))
        self.enc_nl = nn.ModuleList(nn.PReLU(d) for d in depths)
        widths = depths[-2::-1] + (1,)
        inputs = (2 * depths[-1],) + tuple(2 * d for d in widths[:-1])
        self.dec = nn.ModuleList(UpConv(i, o) for i, o in zip(inputs, widths))
        self.dec_nl = nn.ModuleList(nn.PReLU(d) for d in widths[:-1])

    def forward(self, x, z):
        skips = []
        for conv, nl in zip(self.enc, self.enc_nl):
            e = conv(x)
            skips.append(e)
            x = nl(e)
        code = x
        skips.pop()
        x = torch.cat((z, x), dim=1)
        for conv, nl in zip(self.dec, self.dec_nl):
            d = nl(conv(x))
            x = torch.cat((d, skips.pop()), dim=1)
        return torch.tanh(self.dec[-1](x)), code


class Discriminator(nn.Module):
    def __init__(self, fmaps=(4, 6, 8), length=64):
        super().__init__()
        self.convs = nn.ModuleList(DownConv(i, o, bias=False) for i, o in zip((2,) + fmaps, fmaps))
        self.vbns = nn.ModuleList(VirtualBatchNorm1d(f) for f in fmaps)
        self.squeeze = nn.Conv1d(fmaps[-1], 1, kernel_size=1)
        self.fc = nn.Linear(length // 2 ** len(fmaps), 1)

    def features(self, x, refs):
        statistics = []
        for conv, vbn, ref in zip(self.convs, self.vbns, refs):
            x, stats = vbn(conv(x), ref)
            statistics.append(stats)
            x = F.leaky_relu(x, 0.3)
        return x, statistics

    def forward(self, x, reference):
        _, refs = self.features(reference, [None] * len(self.convs))
        x, _ = self.features(x, refs)
        return self.fc(self.squeeze(x).squeeze(1))


class SEGAN(nn.Module):
    def __init__(self):
        super().__init__()
        self.G = Generator()
        self.D = Discriminator()

    def forward(self, clean, noisy, ref_clean, ref_noisy, z):
        enhanced, code = self.G(noisy, z)
        reference = torch.cat((ref_clean, ref_noisy), dim=1)
        real = self.D(torch.cat((clean, noisy), dim=1), reference)
        fake = self.D(torch.cat((enhanced, noisy), dim=1), reference)
        return code, enhanced, real, fake


def loss(model, clean, noisy, ref_clean, ref_noisy, z):
    clean, noisy, ref_clean, ref_noisy = (wave.unsqueeze(1) for wave in (clean, noisy, ref_clean, ref_noisy))
    code, enhanced, real, fake = model(clean, noisy, ref_clean, ref_noisy, z.transpose(1, 2))
    d_loss = F.mse_loss(real, torch.ones_like(real)) + F.mse_loss(fake, torch.zeros_like(fake))
    g_adv = F.mse_loss(fake, torch.ones_like(fake))
    g_l1 = 10.0 * F.l1_loss(enhanced, clean)
    return g_adv + g_l1, {"code": code, "enhanced": enhanced, "d_real": real, "d_fake": fake, "g_l1_loss": g_l1, "d_loss": d_loss}
