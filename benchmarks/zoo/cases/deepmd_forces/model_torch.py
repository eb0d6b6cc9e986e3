import torch
from torch import nn
from torch.nn import functional as F

ATOM_TYPES = (0, 0, 0, 1, 1, 1, 1, 1)
START_RATE, DECAY, DECAY_STEPS = 0.005, 0.8, 2
PREF = {"e": 0.02, "f": 2.0, "v": 0.05}


class EmbeddingNet(nn.Module):
    """Widths that double carry their input along twice."""

    def __init__(self, widths):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in zip((1,) + widths[:-1], widths))

    def forward(self, s):
        x = s
        for layer in self.layers:
            y = torch.tanh(layer(x))
            if layer.out_features == 2 * layer.in_features:
                y = y + torch.cat([x, x], dim=-1)
            elif layer.out_features == layer.in_features:
                y = y + x
            x = y
        return x


class Switch(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.inner, self.outer = inner, outer

    def forward(self, r):
        u = ((r - self.inner) / (self.outer - self.inner)).clamp(0.0, 1.0)
        return 1 - u ** 3 * (10 - 15 * u + 6 * u ** 2)


class Environment(nn.Module):
    """For each atom the smooth inverse distances of the others, and these times their directions."""

    def __init__(self, rcut, rcut_smth):
        super().__init__()
        self.switch = Switch(rcut_smth, rcut)
        n = len(ATOM_TYPES)
        others = [[j for j in range(n) if j != i] for i in range(n)]
        self.register_buffer("others", torch.tensor(others), persistent=False)

    def forward(self, coord):
        delta = coord[:, self.others] - coord.unsqueeze(2)
        r = torch.linalg.vector_norm(delta, dim=-1, keepdim=True)
        s = self.switch(r) / r
        return torch.cat([s, s * delta / r], dim=-1)


class Descriptor(nn.Module):
    def __init__(self, widths=(5, 10, 20), axis=4, rcut=4.0, rcut_smth=1.5):
        super().__init__()
        self.axis = axis
        self.environment = Environment(rcut, rcut_smth)
        self.filters = nn.ModuleList(EmbeddingNet(widths) for _ in range(2))
        mean = torch.tensor([0.19, 0.16], dtype=torch.float64)
        std = torch.tensor([[0.15, 0.11], [0.17, 0.13]], dtype=torch.float64)
        kind = torch.tensor(ATOM_TYPES)
        self.register_buffer("davg", F.pad(mean[kind, None], (0, 3))[:, None], persistent=False)
        self.register_buffer("dstd", std[kind][:, [0, 1, 1, 1]][:, None], persistent=False)
        self.register_buffer("neighbour_kind", kind[self.environment.others], persistent=False)

    def forward(self, coord):
        r = self.environment(coord)
        r = (r - self.davg.to(r.dtype)) / self.dstd.to(r.dtype)
        s = r[..., :1]
        by_kind = torch.stack([net(s) for net in self.filters], dim=0)
        g = torch.where(self.neighbour_kind[..., None] == 0, by_kind[0], by_kind[1])
        gr = torch.einsum("bikc,bikm->bicm", r, g) / r.size(2)
        d = torch.einsum("bicm,bica->bima", gr, gr[..., :self.axis])
        return d.flatten(2)


class ResidualLayer(nn.Module):
    """A layer whose change of its input has a learnt step of time."""

    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.idt = nn.Parameter(torch.normal(0.1, 0.001, (width,)))

    def forward(self, x):
        return x + self.idt * torch.tanh(self.linear(x))


class Fitting(nn.Module):
    def __init__(self, in_features, width, shift):
        super().__init__()
        self.shift = shift
        self.net = nn.Sequential(nn.Linear(in_features, width), nn.Tanh(), ResidualLayer(width), nn.Linear(width, 1))

    def forward(self, d):
        return self.net(d).squeeze(-1) + self.shift


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.descriptor = Descriptor()
        self.fitting = nn.ModuleDict({"O": Fitting(80, 16, -2.1), "H": Fitting(80, 16, -1.3)})

    def forward(self, coord):
        heavy = ATOM_TYPES.count(0)
        train = torch.is_grad_enabled()
        with torch.enable_grad():
            coord = coord.detach().requires_grad_(True)
            d = self.descriptor(coord)
            atom_energy = torch.cat([self.fitting["O"](d[:, :heavy]), self.fitting["H"](d[:, heavy:])], dim=1)
            energy = atom_energy.sum(1)
            (slope,) = torch.autograd.grad(energy.sum(), coord, create_graph=train)
        outputs = (d, atom_energy, energy, -slope)
        return outputs if train else tuple(t.detach() for t in outputs)


def loss(model, coord, energy, force):
    d, atom_energy, total, f = model(coord)
    virial = torch.einsum("bni,bnj->bij", coord, f)
    wanted = torch.einsum("bni,bnj->bij", coord, force)
    l2_e = F.mse_loss(total, energy)
    l2_f = F.mse_loss(f, force)
    l2_v = F.mse_loss(virial, wanted)
    n = coord.size(1)
    value = PREF["e"] * l2_e / n + PREF["f"] * l2_f + PREF["v"] * l2_v / n
    return value, {"descriptor": d, "atom_ener": atom_energy, "force": f, "virial": virial, "l2_ener": l2_e, "l2_force": l2_f,
                   "l2_virial": l2_v}


def rate(step):
    return START_RATE * DECAY ** (step // DECAY_STEPS)
