import torch
from torch import nn
from torch.nn import functional as F

EPS = 1e-3
WEIGHT_DECAY = 1e-4


class Embedding(nn.Module):
    """A block of convolutions, gone through several times; each time the input of the level is added."""

    def __init__(self, channels, depth, recursions):
        super().__init__()
        self.recursions = recursions
        self.block = nn.Sequential()
        for _ in range(depth):
            self.block.append(nn.LeakyReLU(0.2))
            self.block.append(nn.Conv2d(channels, channels, 3, padding=1))

    def forward(self, x):
        h = x
        for _ in range(self.recursions):
            h = self.block(h) + x
        return h


class LapSRN(nn.Module):
    def __init__(self, channels=18, depth=2, recursions=2, levels=2):
        super().__init__()
        self.levels = levels
        self.head = nn.Conv2d(1, channels, 3, padding=1)
        self.embedding = Embedding(channels, depth, recursions)
        self.upsample = nn.ConvTranspose2d(channels, channels, 4, stride=2, padding=1)
        self.to_residual = nn.Conv2d(channels, 1, 3, padding=1)
        self.upsample_image = nn.ConvTranspose2d(1, 1, 4, stride=2, padding=1, bias=False)

    def forward(self, image):
        outputs = []
        x = F.leaky_relu(self.head(image), 0.2)
        for _ in range(self.levels):
            x = F.leaky_relu(self.upsample(self.embedding(x)), negative_slope=0.2)
            image = self.upsample_image(image) + self.to_residual(x)
            outputs.append(image)
        return outputs


def build():
    model = LapSRN()
    ramp = torch.tensor([0.25, 0.75, 0.75, 0.25])
    bilinear = torch.outer(ramp, ramp)
    with torch.no_grad():
        model.upsample_image.weight.copy_(bilinear[None, None])
        model.upsample.weight.zero_()
        for i in range(model.upsample.in_channels):
            model.upsample.weight[i, i] = bilinear
    return model


def charbonnier(prediction, target):
    error = torch.sqrt((prediction - target).square() + EPS ** 2)
    return error.sum() / prediction.size(0)


def loss(model, lr, hr):
    image, target = lr.permute(0, 3, 1, 2), hr.permute(0, 3, 1, 2)
    targets = [F.avg_pool2d(target, 2), target]
    outputs = model(image)
    value = sum(charbonnier(output, t) for output, t in zip(outputs, targets))
    kernels = [p for p in model.parameters() if p.dim() == 4]
    value = value + 0.5 * WEIGHT_DECAY * sum(p.square().sum() for p in kernels)
    psnr = -10 * F.mse_loss(outputs[-1].clamp(0, 1), target).log10()
    return value, {"sr_2x": outputs[0], "sr_4x": outputs[1], "psnr": psnr}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=5e-7, momentum=0.9)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
