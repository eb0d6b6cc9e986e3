"""Scale-recurrent network for deblurring, with its Adam, its schedule and its training step."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class DownConv(nn.Conv2d):
    """A 5x5 convolution with stride 2; of the three rows of padding two are at the far side."""

    def __init__(self, in_channels, out_channels):
        super().__init__(in_channels, out_channels, 5, stride=2)

    def forward(self, x):
        return super().forward(F.pad(x, (1, 2, 1, 2)))


class ResBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return x + self.conv2(F.relu(self.conv1(x)))


class ConvLSTMCell(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.gates = nn.Conv2d(2 * channels, 4 * channels, 3, padding=1)

    def forward(self, x, state):
        h, c = state
        i, g, f, o = self.gates(torch.cat([x, h], dim=1)).chunk(4, dim=1)
        c = c * torch.sigmoid(f + 1.0) + torch.sigmoid(i) * torch.tanh(g)
        h = torch.tanh(c) * torch.sigmoid(o)
        return h, c


class Model(nn.Module):
    def __init__(self, widths=(6, 10, 14), levels=3):
        super().__init__()
        a, b, c = widths
        self.levels = levels
        self.enc1 = nn.Sequential(nn.Conv2d(6, a, 5, padding=2), nn.ReLU(), ResBlock(a))
        self.enc2 = nn.Sequential(DownConv(a, b), nn.ReLU(), ResBlock(b))
        self.enc3 = nn.Sequential(DownConv(b, c), nn.ReLU(), ResBlock(c))
        self.lstm = ConvLSTMCell(c)
        self.dec3 = nn.Sequential(ResBlock(c), nn.ConvTranspose2d(c, b, 4, stride=2, padding=1), nn.ReLU())
        self.dec2 = nn.Sequential(ResBlock(b), nn.ConvTranspose2d(b, a, 4, stride=2, padding=1), nn.ReLU())
        self.dec1 = nn.Sequential(ResBlock(a), nn.Conv2d(a, 3, 5, padding=2))
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        for m in self.modules():
            if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
                nn.init.xavier_uniform_(m.weight)
                nn.init.zeros_(m.bias)

    def forward(self, blurred):
        images = blurred.permute(0, 3, 1, 2)
        factor = 2 ** (self.levels - 1)
        n, _, height, width = images.shape
        pred = F.avg_pool2d(images, factor)
        h = c = images.new_zeros(n, self.lstm.gates.out_channels // 4, height // factor // 4, width // factor // 4)
        preds = []
        for level in range(self.levels):
            factor = 2 ** (self.levels - 1 - level)
            if level > 0:
                pred, h, c = self.up(pred), self.up(h), self.up(c)
            e1 = self.enc1(torch.cat([F.avg_pool2d(images, factor), pred.detach()], dim=1))
            e2 = self.enc2(e1)
            h, c = self.lstm(self.enc3(e2), (h, c))
            x = self.dec3(h) + e2
            x = self.dec2(x) + e1
            pred = self.dec1(x)
            preds.append(pred)
        return preds


def loss(model, blurred, sharp):
    preds = model(blurred)
    sharp = sharp.permute(0, 3, 1, 2)
    outputs, terms = {}, []
    for i, pred in enumerate(preds):
        target = F.adaptive_avg_pool2d(sharp, pred.shape[2:])
        terms.append(F.mse_loss(pred, target))
        outputs[f"loss_{i}"] = terms[-1]
        outputs[f"out_{i}"] = pred
    return sum(terms), outputs


class AdamTF(torch.optim.Optimizer):
    """Adam as tf.train.AdamOptimizer has it: the bias correction is in the step size, and epsilon is added to the
    uncorrected root."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(step=0, exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
                state["step"] += 1
                state["exp_avg"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                step_size = group["lr"] * (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
                p.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt().add_(group["eps"]), value=-step_size)


def optimizer(model):
    return AdamTF(model.parameters(), lr=1e-3)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (1 - min(step, 20) / 20) ** 0.3)


@torch.no_grad()
def clip_by_global_norm(parameters, limit):
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.stack([g.norm() for g in grads]).norm()
    for g in grads:
        g.mul_(limit / norm.clamp(min=limit))


def step(model, optimizer, scheduler, blurred, sharp):
    optimizer.zero_grad()
    total, outputs = loss(model, blurred, sharp)
    total.backward()
    clip_by_global_norm(model.parameters(), 0.5)
    optimizer.step()
    if scheduler is not None:
        scheduler.step()
    return total, outputs
