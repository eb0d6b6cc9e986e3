"""A PWC-Net of two levels. Strided convolutions pad as TensorFlow's SAME does, on the right and bottom only."""

import torch
from torch import nn
from torch.nn import functional as F

DIV_FLOW = 20.0


def conv(in_planes, out_planes, stride=1, dilation=1):
    layers = [nn.Conv2d(in_planes, out_planes, 3, stride, dilation if stride == 1 else 0, dilation), nn.LeakyReLU(0.1)]
    if stride == 2:
        layers.insert(0, nn.ZeroPad2d((0, 1, 0, 1)))
    return nn.Sequential(*layers)


def predict_flow(in_planes):
    return nn.Conv2d(in_planes, 2, 3, padding=1)


def deconv(in_planes):
    return nn.ConvTranspose2d(in_planes, 2, 4, stride=2, padding=1)


class Correlation(nn.Module):
    def __init__(self, max_displacement):
        super().__init__()
        self.max_displacement = max_displacement

    def forward(self, x1, x2):
        d, (h, w) = self.max_displacement, x1.shape[2:]
        x2 = F.pad(x2, (d, d, d, d))
        costs = [(x1 * x2[:, :, i:i + h, j:j + w]).mean(dim=1) for i in range(2 * d + 1) for j in range(2 * d + 1)]
        return torch.stack(costs, dim=1)


class DenseBlock(nn.Module):
    def __init__(self, in_planes):
        super().__init__()
        self.conv_0 = conv(in_planes, 16)
        self.conv_1 = conv(in_planes + 16, 8)
        self.predict_flow = predict_flow(in_planes + 24)

    def forward(self, x):
        x = torch.cat([self.conv_0(x), x], dim=1)
        x = torch.cat([self.conv_1(x), x], dim=1)
        return x, self.predict_flow(x)


def warp(x, flow):
    """Samples x at its pixels' places moved by flow, (horizontal, vertical)."""
    h, w = x.shape[2:]
    grid_y, grid_x = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    grid = torch.stack([grid_x, grid_y]).to(flow)
    vgrid = grid + flow
    vgrid = torch.stack([2.0 * vgrid[:, 0] / (w - 1) - 1.0, 2.0 * vgrid[:, 1] / (h - 1) - 1.0], dim=-1)
    return F.grid_sample(x, vgrid, mode="bilinear", padding_mode="border", align_corners=True)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1a = conv(3, 8, stride=2)
        self.conv1b = conv(8, 8)
        self.conv2a = conv(8, 12, stride=2)
        self.conv2b = conv(12, 12)
        self.corr2 = Correlation(1)
        self.decoder2 = DenseBlock(9 + 12)
        self.upflow2 = deconv(2)
        self.upfeat2 = deconv(9 + 12 + 24)
        self.corr1 = Correlation(2)
        self.decoder1 = DenseBlock(25 + 8 + 2 + 2)
        self.dc_conv1 = conv(25 + 12 + 24, 16)
        self.dc_conv2 = conv(16, 8, dilation=2)
        self.dc_conv3 = predict_flow(8)
        self.leakyRELU = nn.LeakyReLU(0.1)

    def forward(self, im1, im2):
        c11 = self.conv1b(self.conv1a(im1))
        c21 = self.conv1b(self.conv1a(im2))
        c12 = self.conv2b(self.conv2a(c11))
        c22 = self.conv2b(self.conv2a(c21))
        corr2 = self.leakyRELU(self.corr2(c12, c22))
        x, flow2 = self.decoder2(torch.cat([corr2, c12], dim=1))
        up_flow, up_feat = self.upflow2(flow2), self.upfeat2(x)
        warped = warp(c21, up_flow * (DIV_FLOW / 2))
        corr1 = self.leakyRELU(self.corr1(c11, warped))
        x, flow1 = self.decoder1(torch.cat([corr1, c11, up_flow, up_feat], dim=1))
        flow1 = flow1 + self.dc_conv3(self.dc_conv2(self.dc_conv1(x)))
        return {"c1_fine": c11, "c1_coarse": c12, "corr2": corr2, "flow2": flow2, "up_flow": up_flow,
                "warped": warped, "corr1": corr1, "flow1": flow1}


def multiscale_loss(flows, target, valid):
    total = 0.0
    for flow, weight in zip(flows, (0.08, 0.32)):
        scaled = F.adaptive_avg_pool2d(target / DIV_FLOW, flow.shape[2:])
        known = F.adaptive_avg_pool2d(valid.unsqueeze(1), flow.shape[2:]).squeeze(1)
        error = ((scaled - flow).abs().sum(dim=1) + 0.01) ** 0.4
        total = total + weight * (error * known).sum(dim=(1, 2)).mean()
    return total


def loss(model, first, second, flow, valid):
    out = model(first.permute(0, 3, 1, 2).contiguous(), second.permute(0, 3, 1, 2).contiguous())
    out["flow_loss"] = multiscale_loss([out["flow1"], out["flow2"]], flow.permute(0, 3, 1, 2), valid)
    decay = sum(p.pow(2).sum() for p in model.parameters() if p.ndim == 4)
    return out["flow_loss"] + 0.5 * 4e-4 * decay, out


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=2e-3, momentum=0.9, nesterov=True)


def scheduler(optimizer):
    """Polynomial decay over ten steps, from the initial rate down to 1e-4."""
    first, last = 2e-3, 1e-4
    return torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: ((first - last) * (1.0 - min(step, 10) / 10) ** 0.9 + last) / first)
