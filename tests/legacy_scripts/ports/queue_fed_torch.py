"""The port of queue_fed.py: dropout of the inputs, weight decay in every rank's loss."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, examples):
        return self.linear(nn.functional.dropout(examples, 0.25, self.training))


def loss(model, fifo_queue_Dequeue_0, fifo_queue_Dequeue_1, decay=0.004):
    xent = nn.functional.cross_entropy(model(fifo_queue_Dequeue_0), fifo_queue_Dequeue_1.long())
    return xent + decay * model.module.linear.weight.square().sum() / 2


def loss_without_decay(model, **batch):
    return loss(model, decay=0.0, **batch)


def without_dropout():
    return Model().eval()


def native_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def native_optimizer_with_another_rate(model):
    return torch.optim.SGD(model.parameters(), lr=0.11)
