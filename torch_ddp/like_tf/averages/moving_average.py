"""The moving average of a changing value, which starts at zero."""

import numpy as np
import torch
from torch import Tensor

from torch_ddp.like_tf.averages.exponential_moving_average import new_weight


class MovingAverage:
    """Keeps ``average -= (average - value) * (1 - decay)`` of a tensor such as the loss, from zero.

    With ``zero_debias`` the result is divided by ``1 - decay ** updates``. Source: assign_moving_average and
    _zero_debias in tensorflow/python/training/moving_averages.py, 1.15.

    Args:
        decay: weight of the old average.
        zero_debias: whether the start at zero is made up for.

    Attributes:
        value: the average so far, or None before the first update.

    Counterpart: tf.compat.v1.train.ExponentialMovingAverage over tensors, with its zero_debias.
    """

    def __init__(self, decay: float, zero_debias: bool = False) -> None:
        self._decay = np.float32(decay)
        self._zero_debias = zero_debias
        self._biased: Tensor | None = None
        self._updates = 0
        self.value: Tensor | None = None

    @torch.no_grad()
    def update(self, value: Tensor, num_updates: int | None = None) -> Tensor:
        """Takes one value.

        Args:
            value: any shape, the same at each call; floating point.
            num_updates: with it the decay is at most ``(1 + num_updates) / (10 + num_updates)``.

        Returns:
            The average, same shape and dtype.
        """
        if self._biased is None:
            self._biased = torch.zeros_like(value)
        weight = torch.tensor(new_weight(self._decay, num_updates), dtype=value.dtype)
        self._biased.sub_((self._biased - value) * weight)
        self._updates += 1
        self.value = self._biased.clone()
        if self._zero_debias:
            self.value /= 1.0 - (1.0 - weight) ** self._updates
        return self.value
