import torch
from torch import nn
from torch.nn import functional as F


def conv(cin, cout, kernel=4, stride=2, padding=1):
    return nn.Conv2d(cin, cout, kernel, stride, padding, padding_mode="reflect")


class ConvBlock(nn.Module):
    """A convolution, a norm by name, an activation."""

    def __init__(self, cin, cout, kernel, stride, padding, norm="none", activation=True):
        super().__init__()
        self.conv = conv(cin, cout, kernel, stride, padding)
        if norm == "in":
            self.norm = nn.InstanceNorm2d(cout, affine=True)
        elif norm == "ln":
            self.norm = nn.GroupNorm(1, cout, eps=1e-12)  # over the whole map, with a scale for every channel
        else:
            self.norm = nn.Identity()
        self.activation = nn.ReLU(inplace=True) if activation else nn.Identity()

    def forward(self, x):
        return self.activation(self.norm(self.conv(x)))


class ResBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.model = nn.Sequential(ConvBlock(dim, dim, 3, 1, 1, "in"), ConvBlock(dim, dim, 3, 1, 1, "in", activation=False))

    def forward(self, x):
        return x + self.model(x)


class AdaptiveInstanceNorm2d(nn.Module):
    def __init__(self, eps=1e-5):
        super().__init__()
        self.eps = eps

    def forward(self, x, gamma, beta):
        flat = x.flatten(2)
        std = (flat.var(dim=2, correction=0) + self.eps).sqrt()[..., None, None]
        mean = flat.mean(dim=2)[..., None, None]
        return gamma[..., None, None] * ((x - mean) / std) + beta[..., None, None]


class AdaINResBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.conv1, self.conv2 = conv(dim, dim, 3, 1, 1), conv(dim, dim, 3, 1, 1)
        self.norm = AdaptiveInstanceNorm2d()

    def forward(self, x, gamma, beta):
        out = F.relu(self.norm(self.conv1(x), gamma, beta))
        return x + self.norm(self.conv2(out), gamma, beta)


class StyleEncoder(nn.Module):
    def __init__(self, ch, style_dim):
        super().__init__()
        self.model = nn.Sequential(ConvBlock(3, ch, 7, 1, 3), ConvBlock(ch, 2 * ch, 4, 2, 1), ConvBlock(2 * ch, 2 * ch, 4, 2, 1),
                                   nn.AdaptiveAvgPool2d(1), nn.Conv2d(2 * ch, style_dim, 1))

    def forward(self, x):
        return self.model(x)


class ContentEncoder(nn.Module):
    def __init__(self, ch, n_downsample, n_res):
        super().__init__()
        layers = [ConvBlock(3, ch, 7, 1, 3, "in")]
        for _ in range(n_downsample):
            layers.append(ConvBlock(ch, 2 * ch, 4, 2, 1, "in"))
            ch *= 2
        self.model = nn.Sequential(*layers, *(ResBlock(ch) for _ in range(n_res)))
        self.output_dim = ch

    def forward(self, x):
        return self.model(x)


class Decoder(nn.Module):
    def __init__(self, dim, style_dim, n_upsample, n_res):
        super().__init__()
        self.mlp = nn.Sequential(nn.Flatten(), nn.Linear(style_dim, dim), nn.ReLU(True), nn.Linear(dim, dim), nn.ReLU(True),
                                 nn.Linear(dim, 2 * dim))
        self.res = nn.ModuleList(AdaINResBlock(dim) for _ in range(n_res))
        up = []
        for _ in range(n_upsample):
            up += [nn.Upsample(scale_factor=2, mode="nearest"), ConvBlock(dim, dim // 2, 5, 1, 2, "ln")]
            dim //= 2
        self.up = nn.Sequential(*up)
        self.to_rgb = conv(dim, 3, 7, 1, 3)

    def forward(self, content, style):
        gamma, beta = self.mlp(style).chunk(2, dim=1)
        for block in self.res:
            content = block(content, gamma, beta)
        return torch.tanh(self.to_rgb(self.up(content)))


class AdaINGen(nn.Module):
    def __init__(self, ch=4, style_dim=4, n_sample=1, n_res=1):
        super().__init__()
        self.enc_content = ContentEncoder(ch, n_sample, n_res)
        self.enc_style = StyleEncoder(ch, style_dim)
        self.dec = Decoder(self.enc_content.output_dim, style_dim, n_sample, n_res)

    def encode(self, images):
        return self.enc_content(images), self.enc_style(images)

    def decode(self, content, style):
        return self.dec(content, style)


class MsImageDis(nn.Module):
    def __init__(self, ch=4, n_layers=2, num_scales=2):
        super().__init__()
        layers = [conv(3, ch), nn.LeakyReLU(0.2)]
        for _ in range(1, n_layers):
            layers += [conv(ch, 2 * ch), nn.LeakyReLU(0.2)]
            ch *= 2
        self.cnn = nn.Sequential(*layers, nn.Conv2d(ch, 1, 1))
        self.downsample = nn.AvgPool2d(3, stride=2, ceil_mode=True)
        self.num_scales = num_scales

    def forward(self, x):
        outputs = []
        for _ in range(self.num_scales):
            outputs.append(self.cnn(x))
            x = self.downsample(x)
        return outputs

    def calc_dis_loss(self, real, fake):
        return sum((r - 1).pow(2).mean() + f.pow(2).mean() for r, f in zip(real, fake))

    def calc_gen_loss(self, fake):
        return sum((f - 1).square().mean() for f in fake)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gen_a, self.gen_b = AdaINGen(), AdaINGen()
        self.dis_a, self.dis_b = MsImageDis(), MsImageDis()


def loss(model, domain_a, domain_b, style_a, style_b):
    gen_a, gen_b, dis_a, dis_b = model.gen_a, model.gen_b, model.dis_a, model.dis_b
    x_a, x_b, s_a, s_b = (t.permute(0, 3, 1, 2) for t in (domain_a, domain_b, style_a, style_b))
    c_a, s_a_prime = gen_a.encode(x_a)
    c_b, s_b_prime = gen_b.encode(x_b)
    x_a_recon, x_b_recon = gen_a.decode(c_a, s_a_prime), gen_b.decode(c_b, s_b_prime)
    x_ba, x_ab = gen_a.decode(c_b, s_a), gen_b.decode(c_a, s_b)
    c_b_recon, s_a_recon = gen_a.encode(x_ba)
    c_a_recon, s_b_recon = gen_b.encode(x_ab)
    x_aba, x_bab = gen_a.decode(c_a_recon, s_a_prime), gen_b.decode(c_b_recon, s_b_prime)

    fake_a, fake_b = dis_a(x_ba), dis_b(x_ab)
    recon_x = F.l1_loss(x_a_recon, x_a) + F.l1_loss(x_b_recon, x_b)
    recon_s = F.l1_loss(s_a_recon, s_a) + F.l1_loss(s_b_recon, s_b)
    recon_c = F.l1_loss(c_a_recon, c_a) + F.l1_loss(c_b_recon, c_b)
    cycle = F.l1_loss(x_aba, x_a) + F.l1_loss(x_bab, x_b)
    adversarial = dis_a.calc_gen_loss(fake_a) + dis_b.calc_gen_loss(fake_b)
    g_loss = adversarial + 10 * recon_x + recon_s + recon_c + 10 * cycle

    real_a, real_b = dis_a(x_a), dis_b(x_b)
    d_loss = dis_a.calc_dis_loss(real_a, dis_a(x_ba.detach())) + dis_b.calc_dis_loss(real_b, dis_b(x_ab.detach()))
    return g_loss, {"discriminator_loss": d_loss, "content_a": c_a, "style_a_prime": s_a_prime, "x_aa": x_a_recon, "x_ba": x_ba,
                    "x_ab": x_ab, "real_a_0": real_a[0], "real_a_1": real_a[1], "recon_content": recon_c, "cyc_recon": cycle}
