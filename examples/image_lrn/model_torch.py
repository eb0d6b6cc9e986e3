"""The port: the same net for one rank of DistributedDataParallel, channels first."""

import torch
from torch import nn
from torch.nn import functional as F

from torch_ddp.like_tf import Conv2d, flatten, l2_loss, local_response_normalization, max_pool


def pool(x: torch.Tensor) -> torch.Tensor:
    # At an even size SAME pads after the last row and column only; torch's padding=1 pads on both sides.
    return max_pool(x, 3, 2, "SAME")


def normalise(x: torch.Tensor) -> torch.Tensor:
    # TensorFlow's alpha counts for each square; that of torch's local_response_norm for their mean.
    return local_response_normalization(x, depth_radius=2, bias=1.0, alpha=0.001 / 9.0, beta=0.75)


class Model(nn.Module):
    """Maps images ``[shard, 28, 28, 1]`` to the layers' outputs by name, and the decay."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = Conv2d(1, 8, 5, padding="SAME")
        self.conv2 = Conv2d(8, 12, 5, padding="SAME")
        self.local3 = nn.Linear(7 * 7 * 12, 32)
        self.local4 = nn.Linear(32, 24)
        self.logits = nn.Linear(24, 10)

    def forward(self, images: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        norm1 = normalise(pool(F.relu(self.conv1(images.reshape(-1, 1, 28, 28)))))
        norm2 = normalise(F.relu(self.conv2(norm1)))
        flat = flatten(pool(norm2))  # in TensorFlow's order, so that local3's kernel is merely transposed
        local3 = F.relu(self.local3(flat))
        local4 = F.relu(self.local4(local3))
        outputs = {"norm1": norm1, "norm2": norm2, "local3": local3, "local4": local4, "logits": self.logits(local4)}
        # The kernels that the graph decays and no others: an optimizer's weight_decay would take the biases too.
        return outputs, 0.004 * (l2_loss(self.local3.weight) + l2_loss(self.local4.weight))


def loss(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Returns the loss over this rank's shard, weight decay included, and what else to compare."""
    outputs, decay = model(images)
    return F.cross_entropy(outputs["logits"], labels.long()) + decay, outputs
