"""The port: the same classifier for one rank of DistributedDataParallel."""

import torch
from torch import nn
from torch.nn import functional as F

from torch_ddp.like_tf import BatchNorm1d, l2_loss

CLASSES = 10
MIXTURES = 2
PENALTY = 1e-4


class Model(nn.Module):
    """Maps frames ``[shard, frames, features]`` to the layers' outputs by name, and the regularisation."""

    def __init__(self) -> None:
        super().__init__()
        self.clusters = nn.Linear(24, 16, bias=False)
        self.norm = BatchNorm1d(16, momentum=0.999, fused=True)  # slim's decay; moving variance as the fused kernel's
        self.hidden = nn.Linear(16, 20)
        self.gates = nn.Linear(20, CLASSES * (MIXTURES + 1), bias=False)
        self.experts = nn.Linear(20, CLASSES * MIXTURES)

    def forward(self, frames: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        scores = F.relu(self.norm(self.clusters(frames.flatten(0, 1))))
        # amax shares the gradient among frames that tie, as TensorFlow does; max gives it to one of them.
        clusters = scores.unflatten(0, frames.shape[:2]).amax(dim=1)
        hidden = F.relu(self.hidden(clusters))
        gates = self.gates(hidden).reshape(-1, MIXTURES + 1).softmax(dim=1)
        experts = self.experts(hidden).reshape(-1, MIXTURES).sigmoid()
        probabilities = (gates[:, :MIXTURES] * experts).sum(dim=1).reshape(-1, CLASSES)
        outputs = {"clusters": clusters, "hidden": hidden, "gates": gates, "probabilities": probabilities}
        return outputs, self.regularization()

    def regularization(self) -> torch.Tensor:
        """Returns the penalty on all kernels, and on no bias, gamma or beta."""
        layers = (self.clusters, self.hidden, self.gates, self.experts)
        return sum(PENALTY * l2_loss(layer.weight) for layer in layers)


def loss(model: nn.Module, frames: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Returns the loss over this rank's shard, regularisation included, and what else to compare."""
    outputs, regularization = model(frames)
    return cross_entropy(outputs["probabilities"], labels) + regularization, outputs


def cross_entropy(probabilities: torch.Tensor, labels: torch.Tensor, epsilon: float = 1e-5) -> torch.Tensor:
    """Returns the mean over the shard of the sum over the classes; binary_cross_entropy has no epsilon inside."""
    right = labels * (probabilities + epsilon).log() + (1 - labels) * (1 - probabilities + epsilon).log()
    return -right.sum(dim=1).mean()
