import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm(nn.Module):
    """Batch norm with a shift only, over maps or vectors; the running variance is of the biased ones."""

    def __init__(self, features, eps=1e-3, momentum=0.005):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.bias = nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                var, mean = torch.var_mean(x, dim=[d for d in range(x.dim()) if d != 1], correction=0)
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var, self.momentum)
            return F.batch_norm(x, None, None, None, self.bias, True, 0.0, self.eps)
        return F.batch_norm(x, self.running_mean, self.running_var, None, self.bias, False, 0.0, self.eps)


class BasicConv2d(nn.Module):
    def __init__(self, in_planes, out_planes, kernel_size, stride=1, padding=0):
        super().__init__()
        self.conv = nn.Conv2d(in_planes, out_planes, kernel_size, stride=stride, padding=padding, bias=False)
        self.bn = BatchNorm(out_planes)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.bn(self.conv(x)))


class Block35(nn.Module):
    def __init__(self, planes, width=4, scale=1.0):
        super().__init__()
        self.scale = scale
        self.branch0 = BasicConv2d(planes, width, 1)
        self.branch1 = nn.Sequential(BasicConv2d(planes, width, 1), BasicConv2d(width, width, 3, padding=1))
        self.branch2 = nn.Sequential(BasicConv2d(planes, width, 1), BasicConv2d(width, width, 3, padding=1),
                                     BasicConv2d(width, width, 3, padding=1))
        self.conv2d = nn.Conv2d(3 * width, planes, 1)
        self.relu = nn.ReLU()

    def forward(self, x):
        out = torch.cat((self.branch0(x), self.branch1(x), self.branch2(x)), 1)
        return self.relu(x + self.scale * self.conv2d(out))


class Block17(nn.Module):
    def __init__(self, planes, width=6, scale=1.0, no_relu=False):
        super().__init__()
        self.scale = scale
        self.branch0 = BasicConv2d(planes, width, 1)
        self.branch1 = nn.Sequential(BasicConv2d(planes, width, 1), BasicConv2d(width, width, (1, 3), padding=(0, 1)),
                                     BasicConv2d(width, width, (3, 1), padding=(1, 0)))
        self.conv2d = nn.Conv2d(2 * width, planes, 1)
        self.relu = nn.Identity() if no_relu else nn.ReLU()

    def forward(self, x):
        mixed = torch.cat((self.branch0(x), self.branch1(x)), 1)
        out = self.conv2d(mixed) * self.scale + x
        return self.relu(out)


class Mixed6a(nn.Module):
    def __init__(self, planes):
        super().__init__()
        self.branch0 = BasicConv2d(planes, 10, 3, stride=2)
        self.branch1 = nn.Sequential(BasicConv2d(planes, 6, 1), BasicConv2d(6, 6, 3, padding=1), BasicConv2d(6, 8, 3, stride=2))
        self.branch2 = nn.MaxPool2d(3, stride=2)

    def forward(self, x):
        return torch.cat((self.branch0(x), self.branch1(x), self.branch2(x)), 1)


class Model(nn.Module):
    def __init__(self, num_classes=10, embedding_size=16):
        super().__init__()
        self.conv2d_1a = BasicConv2d(3, 6, 3, stride=2)
        self.conv2d_2b = BasicConv2d(6, 10, 3, padding=1)
        self.maxpool_3a = nn.MaxPool2d(3, 2)
        self.conv2d_3b = BasicConv2d(10, 12, 1)
        self.repeat_1 = nn.Sequential(*[Block35(12, scale=0.17) for _ in range(2)])
        self.mixed_6a = Mixed6a(12)
        self.repeat_2 = nn.Sequential(*[Block17(30, scale=0.10) for _ in range(2)])
        self.block8 = Block17(30, no_relu=True)
        self.avgpool_1a = nn.AdaptiveAvgPool2d(1)
        self.last_linear = nn.Linear(30, embedding_size, bias=False)
        self.last_bn = BatchNorm(embedding_size)
        self.logits = nn.Linear(embedding_size, num_classes)

    def forward(self, x):
        x = self.maxpool_3a(self.conv2d_2b(self.conv2d_1a(x)))
        block35 = self.repeat_1(self.conv2d_3b(x))
        mixed_6a = self.mixed_6a(block35)
        block8 = self.block8(self.repeat_2(mixed_6a))
        prelogits = self.last_bn(self.last_linear(self.avgpool_1a(block8).flatten(1)))
        return {"block35": block35, "Mixed_6a": mixed_6a, "Block8": block8, "prelogits": prelogits,
                "embeddings": F.normalize(prelogits, p=2, dim=1), "logits": self.logits(prelogits)}


def fixed_image_standardization(images):
    return (images - 127.5) / 128.0


def weight_penalty(model):
    return sum(m.weight.pow(2).sum() for m in model.modules() if isinstance(m, (nn.Conv2d, nn.Linear))) / 2


def loss(model, images, labels):
    labels = labels.long()
    out = model(fixed_image_standardization(images).permute(0, 3, 1, 2))
    norm = torch.norm(out["prelogits"].abs() + 1e-4, p=1, dim=1).mean()
    cross_entropy = F.cross_entropy(out["logits"], labels)
    total = cross_entropy + 2e-2 * norm + 5e-4 * weight_penalty(model)
    accuracy = (out["logits"].argmax(1) == labels).to(total.dtype).mean()
    return total, {**out, "cross_entropy": cross_entropy, "prelogits_norm": norm, "accuracy": accuracy}


class RMSprop(torch.optim.Optimizer):
    """TensorFlow's: mean squares begin at one, epsilon is under the root, the rate is inside the momentum."""

    def __init__(self, params, lr, alpha=0.9, momentum=0.9, eps=1.0):
        super().__init__(params, {"lr": lr, "alpha": alpha, "momentum": momentum, "eps": eps})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
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
    return RMSprop(model.parameters(), lr=0.02)
