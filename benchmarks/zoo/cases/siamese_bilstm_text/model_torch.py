import copy

import torch
from torch import nn


class StackedLSTM(nn.Module):
    """Two LSTMs on top of each other, in one direction; one of torch's two biases is kept at zero."""

    def __init__(self, size, hidden, layers):
        super().__init__()
        self.lstm = nn.LSTM(size, hidden, num_layers=layers, batch_first=True)
        for name, p in self.lstm.named_parameters():
            if name.startswith("bias_hh"):
                nn.init.zeros_(p)
                p.requires_grad_(False)
            elif name.startswith("bias_ih"):
                nn.init.zeros_(p)
                p.data[hidden:2 * hidden] = 1.0  # TensorFlow's forget_bias

    def forward(self, x):
        return self.lstm(x)[0]


class Side(nn.Module):
    """The directions do not meet before the end, unlike in a bidirectional nn.LSTM of two layers."""

    def __init__(self, size=8, hidden=10, layers=2):
        super().__init__()
        self.forward_lstm = StackedLSTM(size, hidden, layers)
        self.backward_lstm = StackedLSTM(size, hidden, layers)

    def forward(self, x):
        ahead = self.forward_lstm(x)
        back = self.backward_lstm(x.flip(1)).flip(1)
        return torch.cat([ahead[:, -1], back[:, -1]], dim=1)


class Model(nn.Module):
    def __init__(self, vocabulary=28, size=8):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, size)
        nn.init.uniform_(self.embedding.weight, -1.0, 1.0)
        self.side1 = Side(size)
        self.side2 = self.side1

    def forward(self, x1, x2):
        out1 = self.side1(self.embedding(x1))
        out2 = self.side2(self.embedding(x2))
        distance = torch.linalg.vector_norm(out1 - out2, dim=1)
        return out1, out2, distance / (out1.norm(dim=1) + out2.norm(dim=1))


class ContrastiveLoss(nn.Module):
    def __init__(self, margin=1.0):
        super().__init__()
        self.margin = margin

    def forward(self, distance, y):
        similar = y * distance.pow(2)
        different = (1 - y) * (self.margin - distance).clamp(min=0).pow(2)
        return (similar + different).mean() / 2


criterion = ContrastiveLoss()


def loss(model, input_x1, input_x2, input_y):
    out1, out2, distance = model(input_x1.long(), input_x2.long())
    value = criterion(distance, input_y)
    accuracy = ((1 - distance.round()) == input_y).to(value.dtype).mean()
    return value, {"out1": out1, "out2": out2, "distance": distance, "accuracy": accuracy}


def optimizer(model):
    trained = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.SGD(trained, lr=0.25, momentum=0.875)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)


def step(model, optimizer, scheduler, input_x1, input_x2, input_y):
    optimizer.zero_grad()
    value, outputs = loss(model, input_x1, input_x2, input_y)
    value.backward()
    optimizer.step()
    scheduler.step()
    return value, outputs
