"""PixelCNN with masked convolutions and the loss of PixelCNN++."""

import math

import torch
from torch import nn
from torch.nn import functional as F


def concat_elu(x):
    return F.elu(torch.cat([x, -x], dim=1))


class MaskedConv2d(nn.Conv2d):
    def __init__(self, mask_type, in_channels, out_channels, kernel_size):
        super().__init__(in_channels, out_channels, kernel_size, padding=kernel_size // 2)
        mask = torch.ones(kernel_size, kernel_size)
        centre = kernel_size // 2
        mask[centre, centre + (mask_type == "B"):] = 0
        mask[centre + 1:] = 0
        self.register_buffer("mask", mask)

    def forward(self, x):
        return F.conv2d(x, self.weight * self.mask, self.bias, padding=self.padding)


class GatedResnet(nn.Module):
    def __init__(self, num_filters, skip=False):
        super().__init__()
        self.conv_input = MaskedConv2d("B", 2 * num_filters, num_filters, 3)
        self.nin_skip = nn.Conv2d(2 * num_filters, num_filters, 1) if skip else None
        self.conv_out = MaskedConv2d("B", 2 * num_filters, 2 * num_filters, 3)

    def forward(self, x, a=None):
        h = self.conv_input(concat_elu(x))
        if self.nin_skip is not None:
            h = h + self.nin_skip(concat_elu(a))
        h = self.conv_out(concat_elu(h))
        return x + F.glu(h, dim=1)


class Model(nn.Module):
    def __init__(self, num_filters=12, num_mix=3):
        super().__init__()
        self.conv_in = MaskedConv2d("A", 4, num_filters, 5)
        self.up_layers = nn.ModuleList([GatedResnet(num_filters), GatedResnet(num_filters)])
        self.down_layer = GatedResnet(num_filters, skip=True)
        self.nin_out = nn.Conv2d(num_filters, 10 * num_mix, 1)

    def forward(self, images):
        x = torch.cat([images, torch.ones_like(images[:, :1])], dim=1)
        u_list = [self.conv_in(x)]
        for layer in self.up_layers:
            u_list.append(layer(u_list[-1]))
        u = u_list.pop()
        u = self.down_layer(u, a=u_list.pop())
        return self.nin_out(F.elu(u))


def discretized_mix_logistic(x, l, num_mix):
    """Log-likelihood of every pixel; x is [batch, height, width, 3] in [-1, 1], l has 10 numbers per mixture."""
    logit_probs = l[..., :num_mix]
    l = l[..., num_mix:].reshape(*x.shape, 3 * num_mix)
    means, log_scales, coeffs = l.split(num_mix, dim=-1)
    log_scales = log_scales.clamp(min=-7.0)
    coeffs = torch.tanh(coeffs)
    x = x.unsqueeze(-1).expand_as(means)
    mean_green = means[..., 1, :] + coeffs[..., 0, :] * x[..., 0, :]
    mean_blue = means[..., 2, :] + coeffs[..., 1, :] * x[..., 0, :] + coeffs[..., 2, :] * x[..., 1, :]
    centered_x = x - torch.stack([means[..., 0, :], mean_green, mean_blue], dim=3)
    inv_stdv = torch.exp(-log_scales)
    plus_in = inv_stdv * (centered_x + 1.0 / 255.0)
    min_in = inv_stdv * (centered_x - 1.0 / 255.0)
    cdf_delta = torch.sigmoid(plus_in) - torch.sigmoid(min_in)
    log_cdf_plus = F.logsigmoid(plus_in)
    log_one_minus_cdf_min = F.logsigmoid(-min_in)
    mid_in = inv_stdv * centered_x
    log_pdf_mid = F.logsigmoid(mid_in) + F.logsigmoid(-mid_in) - log_scales
    inner = torch.where(cdf_delta > 1e-5, cdf_delta.clamp(min=1e-12).log(), log_pdf_mid - math.log(127.5))
    log_probs = torch.where(x > 0.999, log_one_minus_cdf_min, inner)
    log_probs = torch.where(x < -0.999, log_cdf_plus, log_probs)
    log_probs = log_probs.sum(dim=3) + F.log_softmax(logit_probs, dim=-1)
    return torch.logsumexp(log_probs, dim=-1)


def loss(model, images):
    params = model(images.permute(0, 3, 1, 2).contiguous())
    log_likelihood = discretized_mix_logistic(images, params.permute(0, 2, 3, 1), num_mix=3)
    total = -log_likelihood.sum()
    bits_per_dim = total / (math.log(2.0) * images.numel())
    return total, {"params": params, "log_likelihood": log_likelihood, "bits_per_dim": bits_per_dim}


class Adam(torch.optim.Optimizer):
    """Adam in the form of the paper's last remark, with epsilon beside the uncorrected root, as TensorFlow has it."""

    def __init__(self, params, lr, betas, eps):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p)
                    state["exp_avg_sq"] = torch.zeros_like(p)
                state["step"] += 1
                state["exp_avg"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                correction = math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
                denom = state["exp_avg_sq"].sqrt().add_(group["eps"])
                p.addcdiv_(state["exp_avg"], denom, value=-group["lr"] * correction)


def optimizer(model):
    return Adam(model.parameters(), lr=2e-3, betas=(0.95, 0.9995), eps=1e-8)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
