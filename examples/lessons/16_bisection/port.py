"""The port, as it should be."""

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """A dense layer, a layer norm and a tanh, ``[shard, 8]`` to ``[shard, 8]``."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8, eps=1e-6)


class Model(nn.Module):
    """Four blocks: inputs ``[shard, 8]`` to logits ``[shard, 3]``, and everything in between by name."""

    def __init__(self):
        super().__init__()
        self.block0, self.block1, self.block2, self.block3 = (Block() for _ in range(4))
        self.logits = nn.Linear(8, 3)

    def forward(self, inputs):
        seen, x = {}, inputs
        for place, block in enumerate((self.block0, self.block1, self.block2, self.block3)):
            x = seen[f"dense{place}"] = block.dense(x)
            x = seen[f"norm{place}"] = block.norm(x)
            x = seen[f"tanh{place}"] = torch.tanh(x)
        seen["logits"] = self.logits(x)
        return seen


def loss(model, inputs, labels):
    seen = model(inputs)
    return F.cross_entropy(seen["logits"], labels.long()), seen


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.5)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=11, gamma=0.5)


def step(model, optimizer, scheduler, inputs, labels):
    optimizer.zero_grad()
    found, seen = loss(model, inputs, labels)
    found.backward()
    optimizer.step()
    scheduler.step()
    return found, seen
