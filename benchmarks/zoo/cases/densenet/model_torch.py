"""DenseNet, torchvision's layout. tf.layers keeps the biased variance when it is not fused, and so does BatchNorm here."""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm(nn.BatchNorm2d):
    def __init__(self, num_features):
        super().__init__(num_features, eps=1e-5, momentum=0.1)

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
            self.running_mean += self.momentum * (mean - self.running_mean)
            self.running_var += self.momentum * (var - self.running_var)
        return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)


class DenseLayer(nn.Module):
    def __init__(self, num_input_features, growth_rate, bn_size=4):
        super().__init__()
        self.norm1 = BatchNorm(num_input_features)
        self.conv1 = nn.Conv2d(num_input_features, bn_size * growth_rate, kernel_size=1, bias=False)
        self.norm2 = BatchNorm(bn_size * growth_rate)
        self.conv2 = nn.Conv2d(bn_size * growth_rate, growth_rate, kernel_size=3, padding=1, bias=False)

    def forward(self, features):
        x = self.conv1(F.relu(self.norm1(torch.cat(features, 1))))
        return self.conv2(F.relu(self.norm2(x)))


class DenseBlock(nn.ModuleDict):
    def __init__(self, num_layers, num_input_features, growth_rate):
        super().__init__({
            f"denselayer{i + 1}": DenseLayer(num_input_features + i * growth_rate, growth_rate)
            for i in range(num_layers)
        })

    def forward(self, x):
        features = [x]
        for layer in self.values():
            features.append(layer(features))
        return torch.cat(features, 1)


class Transition(nn.Sequential):
    def __init__(self, num_input_features, num_output_features):
        super().__init__()
        self.norm = BatchNorm(num_input_features)
        self.relu = nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(num_input_features, num_output_features, kernel_size=1, bias=False)
        self.pool = nn.AvgPool2d(kernel_size=2, stride=2)


class Model(nn.Module):
    def __init__(self, growth_rate=6, num_classes=6):
        super().__init__()
        channels = 2 * growth_rate
        self.conv0 = nn.Conv2d(3, channels, kernel_size=3, padding=1, bias=False)
        self.denseblock1 = DenseBlock(3, channels, growth_rate)
        channels += 3 * growth_rate
        self.transition1 = Transition(channels, channels // 2)
        channels //= 2
        self.denseblock2 = DenseBlock(3, channels, growth_rate)
        channels += 3 * growth_rate
        self.norm5 = BatchNorm(channels)
        self.classifier = nn.Linear(channels, num_classes)

    def forward(self, x):
        dense_1 = self.denseblock1(self.conv0(x))
        trans_1 = self.transition1(dense_1)
        dense_2 = self.denseblock2(trans_1)
        pooled = F.relu(self.norm5(dense_2)).mean((2, 3))
        return {"dense_1": dense_1, "trans_1": trans_1, "dense_2": dense_2, "pooled": pooled,
                "logits": self.classifier(pooled)}


def loss(model, x, label):
    out = model(x.permute(0, 3, 1, 2).contiguous())
    cost = F.cross_entropy(out["logits"], label)
    # the original decays everything that is trained, gammas and biases too
    l2 = 0.5 * sum(p.square().sum() for p in model.parameters())
    return cost + 1e-4 * l2, {**out, "cost": cost}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=3, power=1.0)
