import torch
import torch.nn as nn
import torch.nn.functional as F

CFG = [8, 8, "M", 12, 12, "M", 16, 16, 16, "M"]


class BatchNorm(nn.modules.batchnorm._BatchNorm):
    """Batch norm for maps and for vectors whose running variance is the biased one, as that of tf.nn.moments."""

    def __init__(self, num_features):
        super().__init__(num_features, eps=1e-3, momentum=0.1)

    def _check_input_dim(self, input):
        pass

    def forward(self, input):
        if not self.training:
            return F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)
        dims = [d for d in range(input.dim()) if d != 1]
        with torch.no_grad():
            self.running_mean.copy_(0.9 * self.running_mean + 0.1 * input.mean(dims))
            self.running_var.copy_(0.9 * self.running_var + 0.1 * input.var(dims, unbiased=False))
        return F.batch_norm(input, None, None, self.weight, self.bias, True, 0.0, self.eps)


def make_layers(cfg):
    layers, in_channels = [], 3
    for v in cfg:
        if v == "M":
            layers += [nn.MaxPool2d(kernel_size=2, stride=2)]
        else:
            layers += [nn.Conv2d(in_channels, v, kernel_size=3, padding=1), BatchNorm(v), nn.ReLU(inplace=True)]
            in_channels = v
    return nn.Sequential(*layers)


class VGG(nn.Module):
    def __init__(self, features, num_classes=10):
        super().__init__()
        self.features = features
        self.fc1 = nn.Linear(16 * 2 * 3, 20)
        self.bn1 = BatchNorm(20)
        self.fc2 = nn.Linear(20, 24)
        self.bn2 = BatchNorm(24)
        self.classifier = nn.Linear(24, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                n = m.kernel_size[0] * m.kernel_size[1] * m.out_channels
                m.weight.data.normal_(0, (2.0 / n) ** 0.5)
                m.bias.data.zero_()

    def forward(self, x, keep_fc1, keep_fc2):
        maps = {}
        for name, layer in self.features.named_children():
            x = layer(x)
            if isinstance(layer, nn.MaxPool2d):
                maps[name] = x
        pool1, _, pool3 = maps.values()
        x = torch.flatten(x, 1)
        x = F.relu(self.bn1(self.fc1(x)))
        if self.training:
            x = x * keep_fc1
        x = F.relu(self.bn2(self.fc2(x)))
        if self.training:
            x = x * keep_fc2
        return pool1, pool3, x, self.classifier(x)


def vgg_bn():
    return VGG(make_layers(CFG))


def loss(model, images, labels, keep_fc1, keep_fc2):
    pool1, pool3, fc2, logits = model(images.permute(0, 3, 1, 2), keep_fc1, keep_fc2)
    kernels = [p for p in model.parameters() if p.dim() > 1]
    l2 = 5e-4 * sum((w ** 2).sum() for w in kernels) / 2
    return F.cross_entropy(logits, labels.long()) + l2, {"pool1": pool1, "pool3": pool3, "fc2": fc2, "logits": logits, "l2": l2}


def clip_by_global_norm(parameters, limit):
    """Like TensorFlow's: by limit / max(norm, limit), without an epsilon."""
    grads = [p.grad for p in parameters]
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in grads]))
    for g in grads:
        g.mul_(limit / norm.clamp(min=limit))


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 2], gamma=0.2)


def step(model, optimizer, scheduler, images, labels, keep_fc1, keep_fc2):
    optimizer.zero_grad()
    total, outputs = loss(model, images, labels, keep_fc1, keep_fc2)
    total.backward()
    clip_by_global_norm(model.parameters(), 2.0)
    optimizer.step()
    scheduler.step()
    return total, outputs
