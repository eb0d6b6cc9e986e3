import torch
from torch import nn
from torch.nn import functional as F

CLASSES = 3


class BatchNorm2d(nn.BatchNorm2d):
    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.running_mean += self.momentum * (x.mean((0, 2, 3)) - self.running_mean)
                self.running_var += self.momentum * (x.var((0, 2, 3), unbiased=False) - self.running_var)
            return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)


def conv_bn_leaky(inp, oup, size):
    return nn.Sequential(nn.Conv2d(inp, oup, size, padding=size // 2, bias=False), BatchNorm2d(oup, eps=1e-3, momentum=0.1),
                         nn.LeakyReLU(0.1, inplace=True))


class ReorgLayer(nn.Module):
    """space_to_depth: the four places of a square come first, the channels last."""

    def __init__(self, stride=2):
        super().__init__()
        self.stride = stride

    def forward(self, x):
        b, c, h, w = x.shape
        s = self.stride
        x = x.view(b, c, h // s, s, w // s, s).permute(0, 3, 5, 1, 2, 4)
        return x.reshape(b, s * s * c, h // s, w // s)


class Yolo(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Sequential(conv_bn_leaky(3, 6, 3), nn.MaxPool2d(2), conv_bn_leaky(6, 8, 3), nn.MaxPool2d(2),
                                   conv_bn_leaky(8, 10, 3))
        self.conv2 = nn.Sequential(nn.MaxPool2d(2), conv_bn_leaky(10, 16, 3), conv_bn_leaky(16, 18, 3))
        self.skip = nn.Sequential(conv_bn_leaky(10, 4, 1), ReorgLayer())
        self.conv3 = conv_bn_leaky(16 + 18, 20, 3)
        self.head = nn.Conv2d(20, 3 * (5 + CLASSES), 1)
        self.register_buffer("anchors", torch.tensor([[0.7, 0.8], [1.6, 1.0], [1.2, 2.2]]))

    def forward(self, x):
        fine = self.conv1(x)
        x = torch.cat([self.skip(fine), self.conv2(fine)], 1)
        out = self.head(self.conv3(x))
        b, _, h, w = out.shape
        pred = out.permute(0, 2, 3, 1).reshape(b, h, w, 3, 5 + CLASSES)
        rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        grid = torch.stack([columns, rows], -1)[:, :, None].to(out.dtype)
        xy = pred[..., :2].sigmoid() + grid
        wh = pred[..., 2:4].exp() * self.anchors
        return fine, out, xy, wh, pred[..., 4].sigmoid(), pred[..., 5:]


def box_iou(xy, wh, true_xy, true_wh):
    low = torch.max(xy - wh / 2, true_xy - true_wh / 2)
    high = torch.min(xy + wh / 2, true_xy + true_wh / 2)
    shared = (high - low).clamp(min=0).prod(-1)
    return shared / (wh.prod(-1) + true_wh.prod(-1) - shared)


def loss(model, images, truth):
    fine, out, xy, wh, confidence, logits = model(images.permute(0, 3, 1, 2).contiguous())
    true_xy, true_wh, here = truth[..., :2], truth[..., 2:4], truth[..., 4]
    mask = here > 0
    count = here.sum() + 1e-6
    aim = (box_iou(xy, wh, true_xy, true_wh) * here).detach()
    loss_xy = 0.5 * F.mse_loss(xy[mask], true_xy[mask], reduction="sum") / count
    loss_wh = 0.5 * F.mse_loss(wh[mask].sqrt(), true_wh[mask].sqrt(), reduction="sum") / count
    weight = torch.where(mask, 5.0, 0.5)
    loss_conf = 0.5 * (weight * (confidence - aim) ** 2).mean()
    loss_class = F.cross_entropy(logits[mask], truth[..., 5:][mask].argmax(-1), reduction="sum") / count
    total = loss_xy + loss_wh + loss_conf + loss_class
    return total, {"fine": fine, "out": out, "loss_xy": loss_xy, "loss_wh": loss_wh, "loss_conf": loss_conf, "loss_class": loss_class}
