"""The port, with sparse gradients and with dense ones."""

from torch import nn


class Model(nn.Module):
    """Two words ``[shard, 2]`` looked up and added, then a dense layer."""

    def __init__(self, sparse=True):
        super().__init__()
        self.table = nn.Embedding(10, 4, sparse=sparse)
        self.kernel = nn.Linear(4, 3, bias=False)

    def forward(self, words):
        words = self.table(words).sum(1)
        return words, self.kernel(words)


def dense():
    """Makes the model with dense gradients."""
    return Model(sparse=False)


def loss(model, words, targets):
    """Returns the mean squared error over this rank's shard, and the sum of the words' rows."""
    words, out = model(words)
    return (out - targets).square().mean(), {"words": words}
