"""The port: the same net for one rank of DistributedDataParallel, channels first."""

import torch
from torch import nn
from torch.nn import functional as F

from torch_ddp.like_tf import BatchNorm2d


class Block(nn.Module):
    """Convolves 5x5, normalises, rectifies, pools 2x2: ``[n, c, h, w]`` to ``[n, channels, h / 2, w / 2]``."""

    def __init__(self, inputs: int, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, channels, kernel_size=5, padding=2)  # what SAME means at stride 1
        self.norm = BatchNorm2d(channels)  # TensorFlow's epsilon, and momentum as the weight of the old statistics

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)


class Model(nn.Module):
    """Maps images ``[shard, 28, 28, 1]`` to both blocks' outputs and logits ``[shard, 10]``."""

    def __init__(self) -> None:
        super().__init__()
        self.layer1 = Block(1, 16)
        self.layer2 = Block(16, 32)
        self.logits = nn.Linear(7 * 7 * 32, 10)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        # One channel: NHWC and NCHW hold the same numbers in the same order. A permute would leave strides that torch
        # takes for channels-last, where its batch norm on the CPU sums naively, at a hundredth of the accuracy.
        layer1 = self.layer1(images.reshape(-1, 1, 28, 28))
        layer2 = self.layer2(layer1)
        return layer1, layer2, self.logits(layer2.flatten(1))


def loss(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Returns the mean cross entropy over this rank's shard, and what else to compare."""
    layer1, layer2, logits = model(images)
    return F.cross_entropy(logits, labels.long()), {"layer1": layer1, "layer2": layer2, "logits": logits}
