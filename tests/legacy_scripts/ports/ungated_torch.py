"""The port of ungated.py."""

import torch
from torch import nn
from torch_ddp import like_tf


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 3)
        self.w1 = nn.Linear(3, 3, bias=False)
        self.w2 = nn.Linear(3, 1, bias=False)

    def forward(self, tokens):
        return self.w2(torch.tanh(self.w1(self.embedding(tokens).mean(1)))).squeeze(1)


def loss(model, IteratorGetNext_0, IteratorGetNext_1):
    return (model(IteratorGetNext_0) - IteratorGetNext_1).square().mean()


def optimizer(model):
    """The script adds the embedding's gradients up and averages the others; DDP averages all of them."""
    ranks = torch.distributed.get_world_size()
    optimizer = like_tf.Adagrad(model.parameters(), lr=0.1, initial_accumulator_value=1.0)
    optimizer.register_step_pre_hook(lambda *_: scale([model.embedding.weight], ranks))
    return optimizer


def optimizer_that_sums_all(model):
    ranks = torch.distributed.get_world_size()
    optimizer = like_tf.Adagrad(model.parameters(), lr=0.1, initial_accumulator_value=1.0)
    optimizer.register_step_pre_hook(lambda *_: scale(model.parameters(), ranks))
    return optimizer


def scale(parameters, factor):
    for each in parameters:
        each.grad.mul_(factor)
