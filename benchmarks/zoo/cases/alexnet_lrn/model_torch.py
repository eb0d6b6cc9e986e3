"""AlexNet made small, torchvision's way."""

import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self, num_classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, kernel_size=5, stride=2)
        self.conv2 = nn.Conv2d(8, 16, kernel_size=3, padding=1, groups=2)
        self.conv3 = nn.Conv2d(16, 16, kernel_size=3, padding=1, groups=2)
        # torch divides alpha by the size of the window
        self.lrn1 = nn.LocalResponseNorm(size=5, alpha=5 * 2e-5, beta=0.75, k=1.0)
        self.lrn2 = nn.LocalResponseNorm(5, 5 * 2e-5, 0.75, 1.0)
        self.classifier = nn.Sequential(
            nn.Linear(16 * 3 * 3, 32),
            nn.ReLU(inplace=True),
            nn.Linear(32, 32),
            nn.ReLU(),
            nn.Linear(32, num_classes),
        )

    def forward(self, x):
        norm1 = self.lrn1(F.relu(self.conv1(x)))
        pool1 = F.max_pool2d(norm1, kernel_size=3, stride=2)
        norm2 = self.lrn2(F.relu(self.conv2(pool1)))
        # SAME on 6x6: one row and one column, at the far side
        pool2 = F.max_pool2d(F.pad(norm2, (0, 1, 0, 1)), 3, 2)
        x = F.relu(self.conv3(pool2))
        x = x.permute(0, 2, 3, 1).flatten(1)  # the dense layer was trained on height, width, channel
        fc6 = F.relu(self.classifier[0](x))
        score = self.classifier[2:](fc6)
        return {"norm1": norm1, "pool1": pool1, "norm2": norm2, "pool2": pool2, "fc6": fc6, "score": score}


def loss(model, x, y):
    out = model(x.permute(0, 3, 1, 2).contiguous())
    return F.cross_entropy(out["score"], y), out


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
