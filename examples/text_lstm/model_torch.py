"""The port: the same character model for one rank of DistributedDataParallel, with torch's own LSTM."""

import torch
from torch import nn
from torch.nn import functional as F

SYMBOLS = 96


class Model(nn.Module):
    """Maps characters ``[shard, time]`` to embeddings, the LSTM's outputs, and logits ``[shard * time, 96]``."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, 12)
        self.lstm = nn.LSTM(12, 16, batch_first=True)
        # torch adds two biases where TensorFlow has one, and adds no 1 to the forget gate (the second of i, f, g, o). The
        # second bias is frozen, since were both trained their sum would move twice as far, and is that 1.
        forget_bias = self.lstm.bias_hh_l0.requires_grad_(False).zero_()
        forget_bias[16:32] = 1.0
        self.logits = nn.Linear(16, SYMBOLS)

    def forward(self, characters: torch.Tensor) -> dict[str, torch.Tensor]:
        embedded = self.embedding(characters)
        lstm, _ = self.lstm(embedded)
        return {"embedded": embedded, "lstm": lstm, "logits": self.logits(lstm.flatten(0, 1))}


def loss(
    model: nn.Module, characters: torch.Tensor, following: torch.Tensor, weights: torch.Tensor
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Returns the weighted mean cross entropy over this rank's shard and over time, and what else to compare."""
    outputs = model(characters)
    cross_entropy = F.cross_entropy(outputs["logits"], following.flatten().long(), reduction="none")
    return (cross_entropy * weights.flatten()).sum() / weights.sum(), outputs
