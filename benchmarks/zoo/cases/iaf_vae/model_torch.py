import math

import torch
from torch import nn
from torch.nn import functional as F


def same(size, kernel, stride):
    """What TensorFlow's SAME pads in front and behind."""
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    front = total // 2
    return front, total - front


class WNConv2d(nn.Module):
    """Weight norm with a log scale, SAME padding, perhaps a mask."""

    def __init__(self, cin, cout, kernel=3, stride=1):
        super().__init__()
        self.kernel, self.stride = kernel, stride
        self.V = nn.Parameter(0.05 * torch.randn(cout, cin, kernel, kernel))
        self.g = nn.Parameter(torch.full((cout,), -0.5))
        self.b = nn.Parameter(torch.zeros(cout))

    def direction(self):
        return self.V

    def forward(self, x):
        w = self.g.exp().view(-1, 1, 1, 1) * F.normalize(self.direction(), dim=(1, 2, 3))
        top, bottom = same(x.size(2), self.kernel, self.stride)
        left, right = same(x.size(3), self.kernel, self.stride)
        return F.conv2d(F.pad(x, (left, right, top, bottom)), w, self.b, stride=self.stride)


class WNConvTranspose2d(nn.Module):
    """Twice the size, what is too much behind is cut off; the norm is over each input channel's weights, the scale of the outputs."""

    def __init__(self, cin, cout, kernel=3):
        super().__init__()
        self.padding = (kernel - 2) // 2
        self.V = nn.Parameter(0.05 * torch.randn(cin, cout, kernel, kernel))
        self.g = nn.Parameter(torch.full((cout,), -0.5))
        self.b = nn.Parameter(torch.zeros(cout))

    def forward(self, x):
        w = self.g.exp().view(1, -1, 1, 1) * F.normalize(self.V, dim=(1, 2, 3))
        out = F.conv_transpose2d(x, w, self.b, stride=2, padding=self.padding)
        return out[..., :2 * x.size(2), :2 * x.size(3)]


class ARConv2d(WNConv2d):
    """Sees what comes behind in raster order, and of its own place the channels up to its own."""

    def __init__(self, cin, cout, zero_diagonal=False):
        super().__init__(cin, cout, 3)
        group = max(cin, cout) // min(cin, cout)
        i = torch.arange(cin) // (group if cin > cout else 1)
        o = torch.arange(cout) // (group if cout > cin else 1)
        centre = i < o.unsqueeze(1) if zero_diagonal else i <= o.unsqueeze(1)
        mask = torch.ones(cout, cin, 3, 3)
        mask[:, :, 0] = 0
        mask[:, :, 1, 0] = 0
        mask[:, :, 1, 1] = centre.to(mask.dtype)
        self.register_buffer("mask", mask, persistent=False)

    def direction(self):
        return self.V * self.mask


class ARMultiConv2d(nn.Module):
    def __init__(self, z_size, h_size):
        super().__init__()
        self.convs = nn.ModuleList([ARConv2d(z_size, h_size), ARConv2d(h_size, h_size)])
        self.out_convs = nn.ModuleList([ARConv2d(h_size, z_size, zero_diagonal=True) for _ in range(2)])

    def forward(self, z, context):
        x = F.elu(self.convs[0](z) + context)
        x = F.elu(self.convs[1](x))
        return [conv(x) for conv in self.out_convs]


def log_normal(x, mean, logvar):
    return -0.5 * (math.log(2 * math.pi) + logvar + (x - mean).pow(2) / logvar.exp())


class IAFLayer(nn.Module):
    def __init__(self, h_size, z_size, downsample, top, free_bits=0.25):
        super().__init__()
        self.h_size, self.z_size, self.downsample, self.free_bits = h_size, z_size, downsample, free_bits
        self.up_conv_a = WNConv2d(h_size, 2 * z_size + 2 * h_size, stride=2 if downsample else 1)
        self.up_conv_b = None if top else WNConv2d(h_size, h_size)
        self.down_conv_a = WNConv2d(h_size, 4 * z_size + 2 * h_size)
        self.down_conv_b = (WNConvTranspose2d if downsample else WNConv2d)(h_size + z_size, h_size)
        self.ar = ARMultiConv2d(z_size, h_size)

    def up(self, x):
        out = self.up_conv_a(F.elu(x))
        qz_mean, qz_logsd, context, h = out.split([self.z_size] * 2 + [self.h_size] * 2, 1)
        if self.up_conv_b is None:
            return None, (qz_mean, qz_logsd, context)
        h = self.up_conv_b(F.elu(h))
        if self.downsample:
            x = x[..., ::2, ::2]
        return x + 0.1 * h, (qz_mean, qz_logsd, context)

    def down(self, x, posterior, noise):
        qz_mean, qz_logsd, up_context = posterior
        out = self.down_conv_a(F.elu(x))
        pz_mean, pz_logsd, rz_mean, rz_logsd, down_context, h_det = out.split([self.z_size] * 4 + [self.h_size] * 2, 1)
        mean, logvar = rz_mean + qz_mean, 2 * (rz_logsd + qz_logsd)
        z = mean + torch.exp(0.5 * logvar) * noise
        logqs = log_normal(z, mean, logvar)

        arw_mean, arw_logsd = (0.1 * t for t in self.ar(z, up_context + down_context))
        z = (z - arw_mean) / arw_logsd.exp()
        logqs = logqs + arw_logsd
        kl = logqs - log_normal(z, pz_mean, 2 * pz_logsd)

        kl_obj = kl.sum(dim=(2, 3)).mean(0).clamp(min=self.free_bits).sum()
        h = self.down_conv_b(F.elu(torch.cat((z, h_det), 1)))
        if self.downsample:
            x = F.interpolate(x, scale_factor=2, mode="nearest")
        return x + 0.1 * h, z, kl_obj, kl.sum(dim=(1, 2, 3))


class Model(nn.Module):
    def __init__(self, h_size=6, z_size=3, depth=2, image_size=12):
        super().__init__()
        self.first = WNConv2d(3, h_size, 5, stride=2)
        self.layers = nn.ModuleList(IAFLayer(h_size, z_size, downsample=i > 0, top=i == depth - 1) for i in range(depth))
        self.last = WNConvTranspose2d(h_size, 3, 5)
        self.h_top = nn.Parameter(torch.zeros(h_size))
        self.dec_log_stdv = nn.Parameter(torch.zeros(()))
        self.side = image_size // 2 ** depth

    def forward(self, x, noises):
        posteriors, zs, kl, kl_obj = [], [], 0.0, 0.0
        h = self.first(x)
        for layer in self.layers:
            h, posterior = layer.up(h)
            posteriors.append(posterior)
        h = self.h_top.view(1, -1, 1, 1).expand(x.size(0), -1, self.side, self.side)
        for layer, posterior, noise in zip(self.layers[::-1], posteriors[::-1], noises[::-1]):
            h, z, obj, cost = layer.down(h, posterior, noise)
            zs.append(z)
            kl_obj, kl = kl_obj + obj, kl + cost
        x = self.last(F.elu(h)).clamp(-0.5 + 1 / 512.0, 0.5 - 1 / 512.0)
        return x, zs, kl_obj, kl


def discretized_logistic(mean, logscale, sample, binsize=1 / 256.0):
    scale = logscale.exp()
    sample = (torch.floor(sample / binsize) * binsize - mean) / scale
    logp = torch.log(torch.sigmoid(sample + binsize / scale) - torch.sigmoid(sample) + 1e-7)
    return logp.sum(dim=(1, 2, 3))


def loss(model, x, noise_0, noise_1):
    x = ((x + 0.5) / 256.0).clamp(0.0, 1.0) - 0.5
    x_mean, (z_1, z_0), kl_obj, kl_cost = model(x, [noise_0, noise_1])
    log_pxz = discretized_logistic(x_mean, model.dec_log_stdv, x)
    obj = (kl_obj - log_pxz).sum()
    return obj, {"z_1": z_1, "z_0": z_0, "x_mean": x_mean, "log_pxz": log_pxz, "kl_cost": kl_cost}


class Adamax(torch.optim.Optimizer):
    """Without bias correction, and with an epsilon that is added to the decayed norm, as the reference has it."""

    def __init__(self, params, lr=0.002, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state.update(step=0, exp_avg=torch.zeros_like(p), exp_inf=torch.zeros_like(p))
                state["step"] += 1
                state["exp_avg"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
                torch.maximum(state["exp_inf"].mul_(beta2).add_(group["eps"]), p.grad.abs(), out=state["exp_inf"])
                p.addcdiv_(state["exp_avg"], state["exp_inf"], value=-group["lr"])


def optimizer(model):
    return Adamax(model.parameters())
