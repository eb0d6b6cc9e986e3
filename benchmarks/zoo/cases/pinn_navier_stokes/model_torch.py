import torch
from torch import nn


def derivative(f, *variables):
    """df/dv for each of the variables, by example, ready to be differentiated again."""
    return torch.autograd.grad(f.sum(), variables, create_graph=True)


class Rescale(nn.Module):
    """Maps the box of the data to [-1, 1]."""

    def __init__(self, lower, upper):
        super().__init__()
        self.register_buffer("lower", torch.tensor(lower))
        self.register_buffer("upper", torch.tensor(upper))

    def forward(self, points):
        return 2 * (points - self.lower) / (self.upper - self.lower) - 1


class Potential(nn.Module):
    """Stream function and pressure at (x, y, t)."""

    def __init__(self, lower, upper, width=15, depth=3):
        super().__init__()
        self.rescale = Rescale(lower, upper)
        self.hidden = nn.ModuleList(nn.Linear(3 if i == 0 else width, width) for i in range(depth))
        self.out = nn.Linear(width, 2, bias=False)

    def forward(self, x, y, t):
        h = self.rescale(torch.cat([x, y, t], dim=1))
        for layer in self.hidden:
            h = torch.tanh(layer(h))
        return self.out(h).split(1, dim=1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.potential = Potential([1.0, -2.0, 0.0], [8.0, 2.0, 20.0])
        self.convection = nn.Parameter(torch.ones(1))
        self.viscosity = nn.Parameter(torch.full((1,), 0.125))

    def residual(self, velocity, gradients, pressure, x, y):
        """What is left of one component of the momentum equation."""
        c_x, c_y, c_t = gradients
        u, v = velocity
        laplacian = derivative(c_x, x)[0] + derivative(c_y, y)[0]
        return c_t + self.convection * (u * c_x + v * c_y) + pressure - self.viscosity * laplacian

    def forward(self, x, y, t):
        x, y, t = (axis.detach().requires_grad_() for axis in (x, y, t))
        psi, p = self.potential(x, y, t)
        psi_x, psi_y = derivative(psi, x, y)
        u, v = psi_y, -psi_x
        p_x, p_y = derivative(p, x, y)
        f_u = self.residual((u, v), derivative(u, x, y, t), p_x, x, y)
        f_v = self.residual((u, v), derivative(v, x, y, t), p_y, x, y)
        return u, v, p, f_u, f_v


def loss(model, x, y, t, u, v):
    u_hat, v_hat, p, f_u, f_v = model(x, y, t)
    misfit = (u_hat - u).square().sum() + (v_hat - v).square().sum()
    physics = f_u.square().sum() + f_v.square().sum()
    error = torch.linalg.vector_norm(u_hat - u) / torch.linalg.vector_norm(u)
    return misfit + physics, {"u": u_hat, "v": v_hat, "p": p, "f_u": f_u, "f_v": f_v, "error_u": error}
