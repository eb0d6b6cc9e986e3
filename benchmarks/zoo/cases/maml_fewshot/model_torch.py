"""MAML with functional_call: the learner is a plain module, adapted weights are handed to it by name."""

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F

INNER_LR = 0.4
INNER_STEPS = 2


def pad_same(x, kernel, stride):
    amounts = []
    for size in reversed(x.shape[2:]):
        total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        amounts += [total // 2, total - total // 2]
    return F.pad(x, amounts)


class BatchNorm(nn.Module):
    """Always by the statistics of the examples at hand, with a shift and no scale."""

    def __init__(self, channels, eps=1e-3):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(channels))
        self.eps = eps

    def forward(self, x):
        return F.batch_norm(x, None, None, None, self.bias, True, 0.0, self.eps)


class Block(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, stride=2, bias=False)
        self.bn = BatchNorm(cout)

    def forward(self, x):
        return F.relu(self.bn(self.conv(pad_same(x, 3, 2))))


class Learner(nn.Module):
    def __init__(self, ways=3, filters=8, blocks=3):
        super().__init__()
        self.features = nn.Sequential(*(Block(filters if i else 1, filters) for i in range(blocks)))
        self.classifier = nn.Linear(filters, ways)

    def forward(self, x):
        return self.classifier(self.features(x).mean(dim=(-2, -1)))


class MetaLearner(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Learner()

    def adapted(self):
        return {name: p for name, p in self.net.named_parameters() if ".bn." not in name}

    def inner_loop(self, x, y):
        fast, before = self.adapted(), None
        for _ in range(INNER_STEPS):
            logits = functional_call(self.net, fast, (x,))
            before = logits if before is None else before
            grads = torch.autograd.grad(F.cross_entropy(logits, y), list(fast.values()), create_graph=True)
            fast = {name: w - INNER_LR * g for (name, w), g in zip(fast.items(), grads)}
        return before, fast

    def forward(self, x_support, y_support, x_query):
        before, after = [], []
        with torch.enable_grad():
            for xs, ys, xq in zip(x_support, y_support, x_query):
                logits, fast = self.inner_loop(xs, ys)
                before.append(logits)
                after.append(functional_call(self.net, fast, (xq,)))
        return torch.stack(before), torch.stack(after)


def loss(model, inputa, labela, inputb, labelb):
    y_support, y_query = labela.long(), labelb.long()
    before, after = model(inputa.movedim(-1, 2), y_support, inputb.movedim(-1, 2))
    value = F.cross_entropy(after.flatten(0, 1), y_query.flatten())
    with torch.no_grad():
        pre = F.cross_entropy(before.flatten(0, 1), y_support.flatten())
        accuracy = (after.argmax(-1) == y_query).to(after.dtype).mean()
    return value, {"outputa": before, "outputb": after, "pre_update_loss": pre, "post_update_accuracy": accuracy}
