"""Noise conditional score network in torch, with its training step."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

NUM_CLASSES = 6
SIGMAS = np.exp(np.linspace(np.log(1.0), np.log(0.1), NUM_CLASSES))


class ConditionalInstanceNorm2dPlus(nn.Module):
    def __init__(self, num_features, num_classes=NUM_CLASSES):
        super().__init__()
        self.instance_norm = nn.InstanceNorm2d(num_features, eps=1e-5)
        self.embed = nn.Embedding(num_classes, 3 * num_features)
        self.embed.weight.data[:, : 2 * num_features].normal_(1, 0.02)
        self.embed.weight.data[:, 2 * num_features :].zero_()

    def forward(self, x, y):
        means = x.mean(dim=(2, 3))
        m = means.mean(dim=-1, keepdim=True)
        v = means.var(dim=-1, keepdim=True, unbiased=False)
        means = (means - m) / torch.sqrt(v + 1e-5)
        h = self.instance_norm(x)
        gamma, alpha, beta = self.embed(y).chunk(3, dim=-1)
        h = h + (means * alpha)[..., None, None]
        return gamma[..., None, None] * h + beta[..., None, None]


class ResidualBlock(nn.Module):
    def __init__(self, input_dim, output_dim, dilation):
        super().__init__()
        self.normalize1 = ConditionalInstanceNorm2dPlus(input_dim)
        self.conv1 = nn.Conv2d(input_dim, output_dim, 3, padding=dilation, dilation=dilation)
        self.normalize2 = ConditionalInstanceNorm2dPlus(output_dim)
        self.conv2 = nn.Conv2d(output_dim, output_dim, 3, padding=dilation, dilation=dilation)
        self.shortcut = nn.Conv2d(input_dim, output_dim, 1) if output_dim != input_dim else nn.Identity()

    def forward(self, x, y):
        output = self.conv1(F.elu(self.normalize1(x, y)))
        output = self.conv2(F.elu(self.normalize2(output, y)))
        return self.shortcut(x) + output


class CRPBlock(nn.Module):
    def __init__(self, features, n_stages=2):
        super().__init__()
        self.norms = nn.ModuleList(ConditionalInstanceNorm2dPlus(features) for _ in range(n_stages))
        self.convs = nn.ModuleList(nn.Conv2d(features, features, 3, padding=1, bias=False) for _ in range(n_stages))
        self.pool = nn.AvgPool2d(5, stride=1, padding=2, count_include_pad=False)

    def forward(self, x, y):
        x = F.elu(x)
        path = x
        for norm, conv in zip(self.norms, self.convs):
            path = conv(self.pool(norm(path, y)))
            x = path + x
        return x


class ScoreNet(nn.Module):
    def __init__(self, ngf=10):
        super().__init__()
        self.begin_conv = nn.Conv2d(3, ngf, 3, padding=1)
        self.res1 = ResidualBlock(ngf, ngf, dilation=1)
        self.res2 = ResidualBlock(ngf, 16, dilation=2)
        self.res3 = ResidualBlock(16, 16, dilation=4)
        self.crp = CRPBlock(16)
        self.normalizer = ConditionalInstanceNorm2dPlus(16)
        self.end_conv = nn.Conv2d(16, 3, 3, padding=1)

    def forward(self, x, y):
        h = self.begin_conv(2 * x - 1.0)
        h = self.res1(h, y)
        h = self.res2(h, y)
        h = self.res3(h, y)
        features = self.crp(h, y)
        return features, self.end_conv(F.elu(self.normalizer(features, y)))


def anneal_dsm_score_estimation(scorenet, samples, noise, labels, anneal_power=2.0):
    used_sigmas = samples.new_tensor(SIGMAS)[labels].view(-1, 1, 1, 1)
    perturbed = samples + noise * used_sigmas
    target = -(perturbed - samples) / used_sigmas**2
    features, scores = scorenet(perturbed, labels)
    per_sample = 0.5 * (scores - target).square().flatten(1).sum(dim=1)
    return (per_sample * used_sigmas.flatten() ** anneal_power).mean(), {"features": features, "scores": scores}


def loss(model, images, noise, levels):
    images = images.permute(0, 3, 1, 2)
    noise = noise.permute(0, 3, 1, 2)
    return anneal_dsm_score_estimation(model, images, noise, levels.long())


class Adam(torch.optim.Optimizer):
    """Adam with epsilon beside the uncorrected root, as the original's optimizer has it."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p)
                    state["exp_avg_sq"] = torch.zeros_like(p)
                state["step"] += 1
                state["exp_avg"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                rate = group["lr"] * (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
                p.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt().add_(group["eps"]), value=-rate)


def optimizer(model):
    return Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.999))


def clip_gradients(parameters, max_norm):
    """Scales by max_norm over the larger of both, without the epsilon of clip_grad_norm_."""
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.sqrt(sum(g.square().sum() for g in grads))
    for g in grads:
        g.mul_(max_norm / norm.clamp(min=max_norm))


def step(model, optimizer, scheduler, images, noise, levels):
    optimizer.zero_grad()
    total, outputs = loss(model, images, noise, levels)
    total.backward()
    clip_gradients(model.parameters(), 1.0)
    optimizer.step()
    return total, outputs
