"""Keeps exponential moving averages of the weights."""

from typing import Any, Dict, Iterable, Mapping

import tensorflow.compat.v1 as tf

from tf_towers.tf_types import Operation, Variable


class Averages:
    """Moving averages of weights, made before the update and moved after it.

    The order matters: moved beside the update, as most published code does it, an average takes the old weights, or the
    new ones, or some of both.

    Args:
      description: dict with `decay`, `num_updates` (bool: the decay grows from 1/10 as ``(1 + n) / (10 + n)``, n being
        the global step after the update) and `order`.
      global_step: counts updates.
      weights: the variables to average.

    Source: tensorflow/python/training/moving_averages.py (1.15).
    Counterpart: torch_ddp.like_tf.ExponentialMovingAverage
    """

    def __init__(self, description: Mapping[str, Any], global_step: Variable, weights: Iterable[Variable]) -> None:
        self._average = tf.train.ExponentialMovingAverage(
            description["decay"], global_step if description["num_updates"] else None
        )
        self._weights = list(weights)

    def move(self) -> Operation:
        """Builds the op that moves every average once, towards what its weight holds when the op runs."""
        return self._average.apply(self._weights)

    def variables(self) -> Dict[str, Variable]:
        """Returns dict of variable name to its average, once `move` has been called."""
        return {weight.op.name: self._average.average(weight) for weight in self._weights}
