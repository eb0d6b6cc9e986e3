"""Moving averages of parameters and values, by TensorFlow's rules."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ddp.like_tf.errors import LikeTfError


class ExponentialMovingAverage:
    """Keeps ``average -= (average - variable) * (1 - decay)`` for each variable.

    ``1 - decay`` is a float32 difference. The averages start at the values that the variables have now. Source:
    tensorflow/python/training/moving_averages.py, 1.15.

    Args:
        variables: floating point tensors; those that are averaged are changed elsewhere, in place.
        decay: weight of the old average.

    Attributes:
        variables: the variables, in the order given.
        averages: one tensor each, same shape and dtype.

    Counterpart: tf.compat.v1.train.ExponentialMovingAverage over variables.
    """

    def __init__(self, variables: Iterable[Tensor], decay: float) -> None:
        self.variables = list(variables)
        self.averages = [variable.detach().clone() for variable in self.variables]
        self._decay = np.float32(decay)

    @torch.no_grad()
    def update(self, num_updates: int | None = None) -> None:
        """Moves the averages; call it after the optimizer's step.

        Args:
            num_updates: with it the decay is at most ``(1 + num_updates) / (10 + num_updates)``; TensorFlow users pass
                the global step.
        """
        # A Python float with a float32 value: averages in float64 are multiplied by that value, as the graph casts
        # it.
        weight = new_weight(self._decay, num_updates)
        for average, variable in zip(self.averages, self.variables, strict=True):
            # Three roundings, as the graph; lerp_ would have other ones.
            average.sub_((average - variable) * weight)

    def average(self, variable: Tensor) -> Tensor:
        """Returns the average of one of the variables.

        Args:
            variable: one of ``variables``, by identity.

        Returns:
            Its average, same shape and dtype.

        Raises:
            LikeTfError: the variable is not averaged.
        """
        for known, average in zip(self.variables, self.averages, strict=True):
            if known is variable:
                return average
        raise LikeTfError(
            f"ExponentialMovingAverage: expected one of its {len(self.variables)} variables, got another tensor "
            f"of shape {tuple(variable.shape)}. Give all variables to the constructor."
        )

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Puts the averages in place of the variables while the context lasts, for evaluation."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def state_dict(self) -> dict[str, Any]:
        """Returns the averages by position."""
        return {"averages": list(self.averages)}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes the averages back.

        Args:
            state: what ``state_dict`` returned.

        Raises:
            LikeTfError: there are more or fewer averages than variables, or a shape differs.
        """
        shapes = [tuple(average.shape) for average in state["averages"]]
        wanted = [tuple(average.shape) for average in self.averages]
        if shapes != wanted:
            raise LikeTfError(
                f"ExponentialMovingAverage: expected averages of shapes {wanted}, got {shapes}. "
                "Give the constructor the variables in the order of the saved ones."
            )
        for average, saved in zip(self.averages, state["averages"], strict=True):
            average.copy_(saved)

    @torch.no_grad()
    def _swap(self) -> None:
        for average, variable in zip(self.averages, self.variables, strict=True):
            # The values change places, and the tensors stay: optimizer and wrapper hold them.
            kept = variable.clone()
            variable.copy_(average)
            average.copy_(kept)


def new_weight(decay: np.float32, num_updates: int | None) -> float:
    """Returns the weight of the new value, as the graph rounds it.

    Args:
        decay: weight of the old average.
        num_updates: see ``ExponentialMovingAverage.update``.

    Returns:
        A float32 number as a Python float.
    """
    if num_updates is not None:
        count = np.float32(num_updates)
        # 0.1 at update 0, 0.5 at 8, 0.9 at 80, 0.99 at 890: averages follow closely at first, and forget where they
        # started.
        decay = min(decay, (np.float32(1) + count) / (np.float32(10) + count))
    # A difference of float32 numbers: 9.5e-7 of itself too small for 0.99, 1.3e-5 for 0.999, 1.7e-4 too large for
    # 0.9999.
    return float(np.float32(1) - decay)


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
            # A value has no initial one, as a variable has: its average starts at 0, which weighs decay^n after n
            # updates.
            self._biased = torch.zeros_like(value)
        weight = torch.tensor(new_weight(self._decay, num_updates), dtype=value.dtype)
        self._biased.sub_((self._biased - value) * weight)
        self._updates += 1
        self.value = self._biased.clone()
        if self._zero_debias:
            # 1 - decay^n is what the weights of n values sum to. Where `num_updates` lowers the decay, the present
            # one stands for all of them, as in _zero_debias.
            self.value /= 1.0 - (1.0 - weight) ** self._updates
        return self.value
