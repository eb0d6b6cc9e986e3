"""The port: with batch norm that the case converts, and with layers that are synchronised by themselves."""

from torch import nn

from torch_ddp.like_tf import BatchNorm1d
from torch_ddp.parallel import convert_syncbn_model


class Model(nn.Module):
    """Two dense layers, each before a batch norm, and a third: features ``[shard, 4]`` to ``[shard, 2]``."""

    def __init__(self):
        super().__init__()
        self.first, self.norm1 = nn.Linear(4, 3), BatchNorm1d(3, momentum=0.9, fused=True)
        self.second, self.norm2 = nn.Linear(3, 3), BatchNorm1d(3, momentum=0.9, fused=True)
        self.out = nn.Linear(3, 2)

    def forward(self, features):
        first = self.norm1(self.first(features))
        second = self.norm2(self.second(first.tanh()))
        return first, second, self.out(second.tanh())


def converted():
    """Makes the model with SyncBatchNorm in it."""
    return convert_syncbn_model(Model())


def loss(model, features, targets, example_weights=None):
    """Returns the mean squared error over this rank's shard, and what the layers give."""
    first, second, out = model(features)
    losses = (out - targets).square().mean(1)
    if example_weights is None:
        return losses.mean(), {"first": first, "second": second}
    return (losses * example_weights).sum() / example_weights.sum(), {"first": first, "second": second}


def slower():
    """Makes the model with statistics that move by less."""
    model = Model()
    model.norm1 = BatchNorm1d(3, momentum=0.95, fused=True)
    return model
