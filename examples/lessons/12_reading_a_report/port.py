"""The port, as it should be."""

from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    """Two dense layers: inputs ``[shard, 6]`` to hidden ``[shard, 8]`` and logits ``[shard, 3]``."""

    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(6, 8)
        self.logits = nn.Linear(8, 3)

    def forward(self, inputs):
        hidden = F.relu(self.hidden(inputs))
        return hidden, self.logits(hidden)


def loss(model, inputs, labels):
    hidden, logits = model(inputs)
    return F.cross_entropy(logits, labels.long()), {"hidden": hidden, "logits": logits}
