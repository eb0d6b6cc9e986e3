"""Monocular disparity network with bilinear upsampling, trained on l1, SSIM and edge-aware smoothness at two scales."""

import torch
from torch import nn
from torch.nn import functional as F


class Conv3x3(nn.Module):
    """3x3 convolution and ELU; with stride 2 even sizes are padded below and on the right only."""

    def __init__(self, in_channels, out_channels, stride=1):
        super().__init__()
        self.pad = (1, 1, 1, 1) if stride == 1 else (0, 1, 0, 1)
        self.conv = nn.Conv2d(in_channels, out_channels, 3, stride=stride)

    def forward(self, x):
        return F.elu(self.conv(F.pad(x, self.pad)))


class DispHead(nn.Module):
    def __init__(self, in_channels, max_disp=0.3):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, 1, 3, padding=1)
        self.max_disp = max_disp

    def forward(self, x):
        return self.max_disp * torch.sigmoid(self.conv(x))


def upsample(x):
    return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)


class DepthEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = Conv3x3(3, 8, stride=2)
        self.conv2 = Conv3x3(8, 16, stride=2)
        self.conv3 = nn.Sequential(Conv3x3(16, 32, stride=2), Conv3x3(32, 32))

    def forward(self, x):
        conv1 = self.conv1(x)
        conv2 = self.conv2(conv1)
        return conv1, conv2, self.conv3(conv2)


class DepthDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.upconv3 = Conv3x3(32, 16)
        self.iconv3 = Conv3x3(32, 16)
        self.upconv2 = Conv3x3(16, 8)
        self.iconv2 = Conv3x3(16, 8)
        self.disp2 = DispHead(8)
        self.upconv1 = Conv3x3(8, 8)
        self.iconv1 = Conv3x3(9, 8)
        self.disp1 = DispHead(8)

    def forward(self, conv1, conv2, conv3):
        x = self.upconv3(upsample(conv3))
        iconv3 = self.iconv3(torch.cat([x, conv2], dim=1))
        x = self.upconv2(upsample(iconv3))
        iconv2 = self.iconv2(torch.cat([x, conv1], dim=1))
        disp2 = self.disp2(iconv2)
        x = self.upconv1(upsample(iconv2))
        iconv1 = self.iconv1(torch.cat([x, upsample(disp2)], dim=1))
        return iconv3, iconv2, disp2, self.disp1(iconv1)


class DepthNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = DepthEncoder()
        self.decoder = DepthDecoder()

    def forward(self, images):
        conv1, conv2, conv3 = self.encoder(images)
        iconv3, iconv2, disp2, disp1 = self.decoder(conv1, conv2, conv3)
        return {"conv3": conv3, "iconv3": iconv3, "iconv2": iconv2, "disp1": disp1, "disp2": disp2}


def ssim_loss(x, y):
    c1, c2 = 0.01 ** 2, 0.03 ** 2
    mu_x = F.avg_pool2d(x, 3, stride=1)
    mu_y = F.avg_pool2d(y, 3, stride=1)
    sigma_x = F.avg_pool2d(x ** 2, 3, stride=1) - mu_x ** 2
    sigma_y = F.avg_pool2d(y ** 2, 3, stride=1) - mu_y ** 2
    sigma_xy = F.avg_pool2d(x * y, 3, stride=1) - mu_x * mu_y
    num = (2 * mu_x * mu_y + c1) * (2 * sigma_xy + c2)
    den = (mu_x ** 2 + mu_y ** 2 + c1) * (sigma_x + sigma_y + c2)
    return torch.clamp((1 - num / den) / 2, 0, 1).mean()


def smooth_loss(disp, img):
    disp = disp / (disp.mean(dim=(2, 3), keepdim=True) + 1e-7)
    grad_disp_x = (disp[:, :, :, :-1] - disp[:, :, :, 1:]).abs()
    grad_disp_y = (disp[:, :, :-1, :] - disp[:, :, 1:, :]).abs()
    grad_img_x = (img[:, :, :, :-1] - img[:, :, :, 1:]).abs().mean(dim=1, keepdim=True)
    grad_img_y = (img[:, :, :-1, :] - img[:, :, 1:, :]).abs().mean(dim=1, keepdim=True)
    return (grad_disp_x * torch.exp(-grad_img_x)).mean() + (grad_disp_y * torch.exp(-grad_img_y)).mean()


def masked_l1(disp, target, mask):
    return ((disp - target).abs() * mask).sum() / mask.sum()


def loss(model, images, disparity, valid):
    img, target, mask = (x.permute(0, 3, 1, 2).contiguous() for x in (images, disparity, valid))
    out = model(img)
    total = 0
    for scale in range(2):
        if scale > 0:
            img, target, mask = F.avg_pool2d(img, 2), F.avg_pool2d(target, 2), F.avg_pool2d(mask, 2)
        disp = out["disp%d" % (scale + 1)]
        l1 = masked_l1(disp, target, mask)
        ssim = ssim_loss(disp, target)
        smooth = smooth_loss(disp, img)
        total = total + 0.85 * ssim + 0.15 * l1 + 0.1 * smooth / 2 ** scale
        out.update({"l1_%d" % (scale + 1): l1, "ssim_%d" % (scale + 1): ssim, "smooth_%d" % (scale + 1): smooth})
    return total, out


class RMSpropTF(torch.optim.Optimizer):
    """RMSprop by TensorFlow's rule: epsilon inside the root, averages that begin with ones, rate inside the momentum."""

    def __init__(self, params, lr=1e-2, alpha=0.9, eps=1e-10, momentum=0.0):
        super().__init__(params, dict(lr=lr, alpha=alpha, eps=eps, momentum=momentum))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["square_avg"] = torch.ones_like(p)
                    state["momentum_buffer"] = torch.zeros_like(p)
                square_avg, buf = state["square_avg"], state["momentum_buffer"]
                square_avg.mul_(group["alpha"]).addcmul_(p.grad, p.grad, value=1 - group["alpha"])
                avg = square_avg.add(group["eps"]).sqrt_()
                buf.mul_(group["momentum"]).addcdiv_(p.grad, avg, value=group["lr"])
                p.sub_(buf)


def optimizer(model):
    return RMSpropTF(model.parameters(), lr=0.005, alpha=0.9, eps=1e-2, momentum=0.9)


def scheduler(optimizer, lr=0.005, end=1e-4, total=10, power=0.9):
    def poly(step):
        return ((lr - end) * (1 - min(step, total) / total) ** power + end) / lr

    return torch.optim.lr_scheduler.LambdaLR(optimizer, poly)
