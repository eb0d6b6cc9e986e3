"""Embeddings of pictures by a lifted structured loss, and the step they are trained with."""
import torch
from torch import nn
from torch.nn import functional as F

CLIP_NORM = 1.0


class ConvBlock(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, padding):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, padding=padding, bias=False)
        self.norm = nn.BatchNorm2d(out_channels, eps=1e-3, momentum=0.05)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)))


class Model(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.block1 = ConvBlock(3, 8, 5, padding=2)
        self.pool1 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        self.block2 = ConvBlock(8, 16, 3, padding=1)
        self.pool2 = nn.AvgPool2d(3, stride=2, ceil_mode=True)  # divides by what a window has inside
        self.block3 = ConvBlock(16, 24, 3, padding=0)
        self.head = nn.Linear(24, dim, bias=False)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        nn.init.xavier_uniform_(self.head.weight)

    def forward(self, images):
        x = (images.permute(0, 3, 1, 2) - 127.5) / 128
        x = self.pool1(self.block1(x))
        x = self.pool2(self.block2(x))
        x = self.block3(x).mean(dim=(2, 3))
        return self.head(x)


def lifted_structured(embeddings, labels, margin=1.0):
    distance = torch.cdist(embeddings, embeddings)
    same = labels[:, None] == labels
    negatives = (margin - distance).masked_fill(same, -torch.inf).logsumexp(dim=1)
    pairs = torch.logaddexp(negatives[:, None], negatives) + distance
    i, j = torch.triu(same, diagonal=1).nonzero(as_tuple=True)
    return F.relu(pairs[i, j]).square().mean() / 2


def loss(model, images, labels):
    embeddings = model(images)
    lifted = lifted_structured(embeddings, labels)
    kernels = [p for p in model.parameters() if p.dim() > 1]
    decay = 1e-3 * sum(p.square().sum() for p in kernels) / 2
    return lifted + decay, {"embeddings": embeddings, "lifted": lifted}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2, 4], gamma=0.4)


def clip_norm_(grads, limit):
    norm = torch.stack([g.norm() for g in grads]).norm()
    for g in grads:
        g.mul_(limit / norm.clamp(min=limit))


def step(model, optimizer, scheduler, images, labels):
    optimizer.zero_grad()
    total, outputs = loss(model, images, labels)
    total.backward()
    for p in model.parameters():
        clip_norm_([p.grad], CLIP_NORM)
    optimizer.step()
    scheduler.step()
    return total, outputs
