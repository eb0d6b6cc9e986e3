"""NeRF with hierarchical sampling: the samplers' draws come in with the rays."""
import torch
from torch import nn
from torch.nn import functional as F

NEAR, FAR, N_SAMPLES = 2.0, 6.0, 10
LRATE, DECAY_RATE, DECAY_STEPS = 5e-3, 0.1, 8


class Embedder(nn.Module):
    def __init__(self, num_freqs):
        super().__init__()
        self.register_buffer("freq_bands", 2.0 ** torch.arange(num_freqs), persistent=False)
        self.out_dim = 3 * (1 + 2 * num_freqs)

    def forward(self, x):
        phase = x.unsqueeze(-2) * self.freq_bands.unsqueeze(-1).to(x.dtype)  # [..., freqs, 3]
        waves = torch.stack([phase.sin(), phase.cos()], dim=-2)  # [..., freqs, 2, 3]
        return torch.cat([x, waves.flatten(-3)], dim=-1)


class NeRF(nn.Module):
    def __init__(self, in_pts, in_views, depth=4, width=24, skips=(2,)):
        super().__init__()
        self.skips = skips
        self.pts_linears = nn.ModuleList(
            [nn.Linear(in_pts, width)]
            + [nn.Linear(width + in_pts if i in skips else width, width) for i in range(depth - 1)])
        self.alpha_linear = nn.Linear(width, 1)
        self.feature_linear = nn.Linear(width, width)
        self.views_linears = nn.ModuleList([nn.Linear(width + in_views, width // 2)])
        self.rgb_linear = nn.Linear(width // 2, 3)

    def forward(self, pts, views):
        h = pts
        for i, layer in enumerate(self.pts_linears):
            h = F.relu(layer(h))
            if i in self.skips:
                h = torch.cat([pts, h], -1)
        alpha = self.alpha_linear(h)
        h = torch.cat([self.feature_linear(h), views], -1)
        for layer in self.views_linears:
            h = F.relu(layer(h), inplace=True)
        return torch.cat([self.rgb_linear(h), alpha], -1)


class VolumeRenderer(nn.Module):
    """Composites colours along each ray, over white."""

    def forward(self, raw, z_vals, rays_d):
        gaps = z_vals.diff(dim=-1)
        gaps = torch.cat([gaps, torch.full_like(gaps[:, :1], 1e10)], -1)
        gaps = gaps * rays_d.norm(dim=-1, keepdim=True)
        alpha = 1.0 - torch.exp(-F.relu(raw[..., 3]) * gaps)
        passed = torch.cat([torch.ones_like(alpha[:, :1]), 1.0 - alpha + 1e-10], -1)
        weights = alpha * torch.cumprod(passed, -1)[:, :-1]
        rgb = torch.einsum("rs,rsc->rc", weights, torch.sigmoid(raw[..., :3]))
        depth = (weights * z_vals).sum(-1)
        rgb = rgb + (1.0 - weights.sum(-1, keepdim=True))
        return rgb, weights, depth


def sample_pdf(bins, weights, u):
    weights = weights + 1e-5
    pdf = weights / weights.sum(-1, keepdim=True)
    cdf = F.pad(pdf.cumsum(-1), (1, 0))
    inds = torch.searchsorted(cdf.detach().contiguous(), u.contiguous(), right=True)
    below = (inds - 1).clamp(min=0)
    above = inds.clamp(max=cdf.size(-1) - 1)
    cdf_below, cdf_above = cdf.gather(-1, below), cdf.gather(-1, above)
    bins_below, bins_above = bins.gather(-1, below), bins.gather(-1, above)
    denom = cdf_above - cdf_below
    denom = torch.where(denom < 1e-5, torch.ones_like(denom), denom)
    return bins_below + (u - cdf_below) / denom * (bins_above - bins_below)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_pts = Embedder(4)
        self.embed_dirs = Embedder(2)
        self.coarse = NeRF(self.embed_pts.out_dim, self.embed_dirs.out_dim)
        self.fine = NeRF(self.embed_pts.out_dim, self.embed_dirs.out_dim)
        self.render = VolumeRenderer()

    def query(self, network, rays_o, rays_d, viewdirs, z_vals):
        pts = rays_o.unsqueeze(1) + rays_d.unsqueeze(1) * z_vals.unsqueeze(-1)
        dirs = viewdirs.unsqueeze(1).expand_as(pts)
        return network(self.embed_pts(pts), self.embed_dirs(dirs))

    def forward(self, rays_o, rays_d, t_rand, u):
        viewdirs = F.normalize(rays_d, dim=-1)
        t = torch.linspace(0.0, 1.0, N_SAMPLES, dtype=torch.float64).to(rays_o)
        z = NEAR * (1.0 - t) + FAR * t
        mids = (z[1:] + z[:-1]) / 2
        lower, upper = torch.cat([z[:1], mids]), torch.cat([mids, z[-1:]])
        z_coarse = torch.lerp(lower.expand_as(t_rand), upper.expand_as(t_rand), t_rand)
        raw = self.query(self.coarse, rays_o, rays_d, viewdirs, z_coarse)
        rgb0, weights, _ = self.render(raw, z_coarse, rays_d)

        between = (z_coarse[:, 1:] + z_coarse[:, :-1]) / 2
        z_new = sample_pdf(between, weights[:, 1:-1], u).detach()
        z_fine = torch.cat([z_coarse, z_new], -1).sort(-1).values
        raw = self.query(self.fine, rays_o, rays_d, viewdirs, z_fine)
        rgb, _, depth = self.render(raw, z_fine, rays_d)
        return rgb0, weights, z_fine, rgb, depth


def loss(model, rays_o, rays_d, target, t_rand, u):
    rgb0, weights, z_fine, rgb, depth = model(rays_o, rays_d, t_rand, u)
    fine = F.mse_loss(rgb, target)
    coarse = F.mse_loss(rgb0, target)
    psnr = -10.0 * torch.log10(fine)
    return fine + coarse, {"rgb0": rgb0, "weights0": weights, "z_fine": z_fine, "rgb": rgb, "depth": depth, "psnr": psnr}


def rate(step):
    return LRATE * DECAY_RATE ** (step / DECAY_STEPS)
