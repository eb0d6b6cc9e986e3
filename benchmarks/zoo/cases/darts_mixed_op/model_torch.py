import torch
from torch import nn
from torch.nn import functional as F

N_OPS = 6


def norm(channels):
    return nn.BatchNorm2d(channels, affine=False, track_running_stats=False)


class Zero(nn.Module):
    def __init__(self, stride):
        super().__init__()
        self.stride = stride

    def forward(self, x):
        return torch.zeros_like(x[:, :, ::self.stride, ::self.stride])


class FactorizedReduce(nn.Module):
    """Halves a map by two convolutions, the second of which looks at the pixels that the first leaves out."""

    def __init__(self, cin, cout):
        super().__init__()
        self.even = nn.Conv2d(cin, cout // 2, 1, stride=2, bias=False)
        self.odd = nn.Conv2d(cin, cout // 2, 1, stride=2, bias=False)
        self.bn = norm(cout)

    def forward(self, x):
        x = F.relu(x)
        return self.bn(torch.cat([self.even(x), self.odd(x[:, :, 1:, 1:])], dim=1))


def relu_conv_bn(cin, cout):
    return nn.Sequential(nn.ReLU(), nn.Conv2d(cin, cout, 1, bias=False), norm(cout))


def separable(cin, cout, stride):
    if stride == 1:
        first = [nn.Conv2d(cin, cin, 3, padding=1, groups=cin, bias=False)]
    else:
        first = [nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(cin, cin, 3, stride=2, groups=cin, bias=False)]
    return nn.Sequential(
        nn.ReLU(), *first, nn.Conv2d(cin, cin, 1, bias=False), norm(cin),
        nn.ReLU(), nn.Conv2d(cin, cin, 3, padding=1, groups=cin, bias=False), nn.Conv2d(cin, cout, 1, bias=False), norm(cout),
    )


def dilated(cin, cout, stride):
    depthwise = nn.Conv2d(cin, cin, 3, stride=stride, padding=2, dilation=2, groups=cin, bias=False)
    return nn.Sequential(nn.ReLU(), depthwise, nn.Conv2d(cin, cout, 1, bias=False), norm(cout))


def pooling(kind, channels, stride):
    # with a stride, windows start at the first pixel and run over the end
    padding = 1 if stride == 1 else 0
    if kind == "max":
        pool = nn.MaxPool2d(3, stride, padding=padding, ceil_mode=True)
    else:
        pool = nn.AvgPool2d(3, stride, padding=padding, ceil_mode=True, count_include_pad=False)
    return nn.Sequential(pool, norm(channels))


class MixedOp(nn.Module):
    def __init__(self, channels, stride):
        super().__init__()
        self.ops = nn.ModuleList([
            Zero(stride),
            pooling("max", channels, stride),
            pooling("avg", channels, stride),
            nn.Identity() if stride == 1 else FactorizedReduce(channels, channels),
            separable(channels, channels, stride),
            dilated(channels, channels, stride),
        ])

    def forward(self, x, weights):
        return sum(w * op(x) for w, op in zip(weights, self.ops))


class Cell(nn.Module):
    def __init__(self, cin0, cin1, channels, reduction, after_reduction, nodes=2):
        super().__init__()
        self.reduction = reduction
        self.nodes = nodes
        self.pre0 = FactorizedReduce(cin0, channels) if after_reduction else relu_conv_bn(cin0, channels)
        self.pre1 = relu_conv_bn(cin1, channels)
        self.edges = nn.ModuleList()
        for node in range(nodes):
            for source in range(2 + node):
                self.edges.append(MixedOp(channels, stride=2 if reduction and source < 2 else 1))

    def forward(self, s0, s1, weights):
        states = [self.pre0(s0), self.pre1(s1)]
        edges = iter(zip(self.edges, weights))
        for _ in range(self.nodes):
            mixed = []
            for state in states:
                op, w = next(edges)
                mixed.append(op(state, w))
            states.append(sum(mixed))
        return torch.cat(states[2:], dim=1)


class SearchNetwork(nn.Module):
    def __init__(self, channels=6, classes=4, reductions=(True, False), nodes=2):
        super().__init__()
        n_edges = sum(2 + i for i in range(nodes))
        self.alphas_normal = nn.Parameter(1e-3 * torch.randn(n_edges, N_OPS))
        self.alphas_reduce = nn.Parameter(1e-3 * torch.randn(n_edges, N_OPS))
        width = 2 * channels
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False), norm(width))
        self.cells = nn.ModuleList()
        before, last, after_reduction = width, width, False
        for reduction in reductions:
            if reduction:
                channels *= 2
            self.cells.append(Cell(before, last, channels, reduction, after_reduction, nodes))
            before, last, after_reduction = last, nodes * channels, reduction
        self.classifier = nn.Linear(last, classes)

    def forward(self, images):
        s0 = s1 = self.stem(images)
        normal = F.softmax(self.alphas_normal, dim=-1)
        reduce = F.softmax(self.alphas_reduce, dim=-1)
        for cell in self.cells:
            s0, s1 = s1, cell(s0, s1, reduce if cell.reduction else normal)
        return self.classifier(s1.mean(dim=(2, 3)))


def half_norm(parameters):
    return 0.5 * sum(p.square().sum() for p in parameters)


def loss(model, images, labels, val_images, val_labels):
    alphas, weights = [], []
    for name, parameter in model.named_parameters():
        (alphas if "alphas" in name else weights).append(parameter)
    logits = model(images.permute(0, 3, 1, 2))
    val_logits = model(val_images.permute(0, 3, 1, 2))
    value = F.cross_entropy(logits, labels.long()) + 3e-3 * half_norm(weights)
    arch_loss = F.cross_entropy(val_logits, val_labels.long()) + 1e-2 * half_norm(alphas)
    accuracy = (val_logits.argmax(1) == val_labels).to(images.dtype).mean()
    return value, {"logits": logits, "val_logits": val_logits, "arch_loss": arch_loss, "val_accuracy": accuracy}
