"""A port with a bug."""

import port
from port import loss as loss
from torch.nn import functional as F


class Model(port.Model):
    """The same layers."""

    def forward(self, inputs):
        hidden = F.leaky_relu(self.hidden(inputs))
        return hidden, self.logits(hidden)
