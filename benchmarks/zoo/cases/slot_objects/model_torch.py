"""Slot attention for object discovery."""
import torch
from torch import nn
from torch.nn import functional as F

LR, HALF_LIFE = 2e-3, 4


class SoftPositionEmbed(nn.Module):
    """Adds a projection of the coordinates and of their complements to a map."""

    def __init__(self, channels, resolution):
        super().__init__()
        self.dense = nn.Linear(4, channels)
        axes = [torch.linspace(0.0, 1.0, size, dtype=torch.float64) for size in resolution]
        grid = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1)
        self.register_buffer("grid", torch.cat([grid, 1.0 - grid], dim=-1).unsqueeze(0), persistent=False)

    def forward(self, x):
        return x + self.dense(self.grid.to(x.dtype)).permute(0, 3, 1, 2)


class SamePadConv2d(nn.Conv2d):
    """Pads a strided convolution as TensorFlow's "same" does, more behind than in front."""

    def forward(self, x):
        pads = []
        for size, kernel, stride in zip(reversed(x.shape[2:]), reversed(self.kernel_size), reversed(self.stride)):
            total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            pads += [total // 2, total - total // 2]
        return super().forward(F.pad(x, pads))


class SameDeconv2d(nn.ConvTranspose2d):
    """Transposed convolution to exactly twice the size, cut as TensorFlow's "same"."""

    def __init__(self, in_channels, out_channels):
        super().__init__(in_channels, out_channels, 5, stride=2, padding=1)

    def forward(self, x):
        return super().forward(x)[:, :, :-1, :-1]


class SlotAttention(nn.Module):
    def __init__(self, num_slots, dim, hidden, iters=3, eps=1e-8):
        super().__init__()
        self.num_slots, self.iters, self.eps = num_slots, iters, eps
        self.scale = dim ** -0.5
        self.slots_mu = nn.Parameter(torch.randn(1, 1, dim))
        self.slots_logsigma = nn.Parameter(torch.zeros(1, 1, dim))
        nn.init.xavier_uniform_(self.slots_logsigma)
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.LayerNorm(dim, eps=1e-3), nn.Linear(dim, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, dim))
        self.norm_input = nn.LayerNorm(dim, eps=1e-3)
        self.norm_slots = nn.LayerNorm(dim, eps=1e-3)

    def forward(self, inputs, noise):
        b, n, d = inputs.shape
        slots = self.slots_mu + self.slots_logsigma.exp() * noise
        inputs = self.norm_input(inputs)
        k, v = self.to_k(inputs), self.to_v(inputs)
        for _ in range(self.iters):
            slots_prev = slots
            q = self.to_q(self.norm_slots(slots))
            dots = torch.einsum("bid,bjd->bij", q, k) * self.scale
            attn = dots.softmax(dim=1)
            weights = attn + self.eps
            weights = weights / weights.sum(dim=-1, keepdim=True)
            updates = torch.einsum("bjd,bij->bid", v, weights)
            slots = self.gru(updates.reshape(-1, d), slots_prev.reshape(-1, d)).reshape(b, -1, d)
            slots = slots + self.mlp(slots)
        return slots, attn.transpose(1, 2)


class Encoder(nn.Module):
    def __init__(self, channels, hidden, dim, resolution):
        super().__init__()
        self.convs = nn.Sequential(
            nn.Conv2d(3, channels, 5, padding=2), nn.ReLU(), SamePadConv2d(channels, channels, 5, stride=2), nn.ReLU())
        self.pos = SoftPositionEmbed(channels, (resolution // 2, resolution // 2))
        self.norm = nn.LayerNorm(channels, eps=1e-3)
        self.mlp = nn.Sequential(nn.Linear(channels, hidden), nn.ReLU(), nn.Linear(hidden, dim))

    def forward(self, x):
        x = self.pos(self.convs(x))
        return self.mlp(self.norm(x.flatten(2).transpose(1, 2)))


class Decoder(nn.Module):
    def __init__(self, channels, dim, start=4):
        super().__init__()
        self.start = start
        self.pos = SoftPositionEmbed(dim, (start, start))
        self.deconvs = nn.Sequential(
            SameDeconv2d(dim, channels), nn.ReLU(), SameDeconv2d(channels, channels), nn.ReLU(),
            nn.ConvTranspose2d(channels, 4, 3, stride=1, padding=1))

    def forward(self, slots):
        b, k, d = slots.shape
        x = slots.reshape(b * k, d, 1, 1).expand(-1, -1, self.start, self.start)
        x = self.deconvs(self.pos(x)).unflatten(0, (b, k))
        recons, masks = x.split([3, 1], dim=2)
        masks = masks.softmax(dim=1)
        return (recons * masks).sum(1), masks


class Model(nn.Module):
    def __init__(self, channels=10, hidden=24, dim=16, num_slots=4, resolution=16):
        super().__init__()
        self.encoder = Encoder(channels, hidden, dim, resolution)
        self.slot_attention = SlotAttention(num_slots, dim, hidden)
        self.decoder = Decoder(channels, dim)

    def forward(self, x, noise):
        features = self.encoder(x)
        slots, attn = self.slot_attention(features, noise)
        recon, masks = self.decoder(slots)
        return features, attn, slots, masks, recon


def loss(model, image, slots_noise):
    x = image.permute(0, 3, 1, 2) * 2.0 - 1.0
    features, attn, slots, masks, recon = model(x, slots_noise)
    return F.mse_loss(recon, x), {"features": features, "attn": attn, "slots": slots, "masks": masks, "recon": recon}


def rate(step):
    return LR * 0.5 ** (step / HALF_LIFE)
