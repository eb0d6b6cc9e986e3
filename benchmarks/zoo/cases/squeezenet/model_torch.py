"""SqueezeNet in PyTorch, and the RMSProp it is trained with."""
import torch
import torch.nn as nn
import torch.nn.functional as F

NUM_CLASSES = 7
MEAN = (128.5, 116.75, 103.25)
STD = 64.0


class Fire(nn.Module):
    def __init__(self, in_channels, squeeze, expand):
        super().__init__()
        self.squeeze = nn.Conv2d(in_channels, squeeze, 1)
        self.expand1x1 = nn.Conv2d(squeeze, expand, 1)
        self.expand3x3 = nn.Conv2d(squeeze, expand, 3, padding=1)

    def forward(self, x):
        x = F.relu(self.squeeze(x))
        return torch.cat([F.relu(self.expand1x1(x)), F.relu(self.expand3x3(x))], dim=1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 12, 3, stride=2)
        self.pool1 = nn.MaxPool2d(3, stride=2, ceil_mode=True)   # 10 -> 5, the odd row is on the far side
        self.fire2 = Fire(12, 4, 8)
        self.fire3 = Fire(16, 4, 8)
        self.pool3 = nn.MaxPool2d(3, stride=2, padding=1)        # 5 -> 3
        self.fire4 = Fire(16, 6, 12)
        self.fire5 = Fire(24, 6, 12)
        self.conv10 = nn.Conv2d(24, NUM_CLASSES, 1)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.xavier_uniform_(module.weight)
                nn.init.constant_(module.bias, 0.3)
        nn.init.normal_(self.conv10.weight, std=0.01)

    def forward(self, images):
        x = images.permute(0, 3, 1, 2)
        x = (x - x.new_tensor(MEAN).view(1, 3, 1, 1)) / STD
        x = self.pool1(F.relu(self.conv1(x)))
        x = self.fire2(x)
        x = x + self.fire3(x)
        x = self.pool3(x)
        x = self.fire4(x)
        x = x + self.fire5(x)
        x = F.relu(self.conv10(x))
        return x.mean(dim=(2, 3))


def loss(model, images, labels):
    logits = model(images)
    cross_entropy = F.cross_entropy(logits, labels.long(), label_smoothing=0.1)
    decay = sum(p.square().sum() / 2 for name, p in model.named_parameters() if name.endswith("weight"))
    return cross_entropy + 5e-4 * decay, {"logits": logits, "cross_entropy": cross_entropy}


class RMSpropTF(torch.optim.Optimizer):
    """tf.train.RMSPropOptimizer: epsilon under the root, mean squares that begin at one, and the
    learning rate inside the momentum."""

    def __init__(self, params, lr, alpha=0.9, momentum=0.0, eps=1e-10):
        super().__init__(params, dict(lr=lr, alpha=alpha, momentum=momentum, eps=eps))

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
                denom = square_avg.add(group["eps"]).sqrt_()
                buf.mul_(group["momentum"]).addcdiv_(p.grad, denom, value=group["lr"])
                p.sub_(buf)


def optimizer(model):
    return RMSpropTF(model.parameters(), lr=0.01, alpha=0.9, momentum=0.9, eps=0.1)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / 16)
