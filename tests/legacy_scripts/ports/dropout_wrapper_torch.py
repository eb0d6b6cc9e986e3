"""The port of dropout_wrapper.py: in every time step the inputs are dropped first, then the outputs, as the wrapper does."""

import torch
from torch import nn
from torch_ddp import like_tf


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(8, 3)
        self.gates = nn.Linear(7, 16)
        self.softmax = nn.Linear(4, 8, bias=False)

    def forward(self, words):
        inputs = self.embedding(words)
        c = h = inputs.new_zeros(len(words), 4)
        outputs = []
        for t in range(inputs.shape[1]):
            dropped = like_tf.dropout(inputs[:, t], 0.2)
            c, h = self.cell(dropped, c, h)
            outputs.append(like_tf.dropout(h, 0.4))
        return self.softmax(torch.stack(outputs, 1).flatten(0, 1))

    def cell(self, x, c, h):
        i, j, f, o = self.gates(torch.cat([x, h], 1)).chunk(4, 1)
        c = c * torch.sigmoid(f + 0.5) + torch.sigmoid(i) * torch.tanh(j)
        return c, torch.tanh(c) * torch.sigmoid(o)


class AllAtOnce(Model):
    """Drops the inputs of all time steps before the loop and the outputs of all after it."""

    def forward(self, words):
        inputs = like_tf.dropout(self.embedding(words), 0.2)
        c = h = inputs.new_zeros(len(words), 4)
        outputs = []
        for t in range(inputs.shape[1]):
            c, h = self.cell(inputs[:, t], c, h)
            outputs.append(h)
        return self.softmax(like_tf.dropout(torch.stack(outputs, 1), 0.4).flatten(0, 1))


class DropsTheState(Model):
    """What goes on to the next time step is the dropped output: the wrapper leaves the state whole."""

    def forward(self, words):
        inputs = self.embedding(words)
        c = h = inputs.new_zeros(len(words), 4)
        outputs = []
        for t in range(inputs.shape[1]):
            c, h = self.cell(like_tf.dropout(inputs[:, t], 0.2), c, h)
            h = like_tf.dropout(h, 0.4)
            outputs.append(h)
        return self.softmax(torch.stack(outputs, 1).flatten(0, 1))


def loss(model, words, targets):
    return nn.functional.cross_entropy(model(words), targets.flatten().long())


def summed(model, words, targets):
    return nn.functional.cross_entropy(model(words), targets.flatten().long(), reduction="sum")
