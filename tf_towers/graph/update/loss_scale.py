"""Scales losses so that gradients in half precision do not vanish; the dynamic scale follows what overflows."""

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tf_towers.tf_types import DType, Operation, Tensor, Variable


class LossScale:
    """A loss scale: a constant, or one that halves when a gradient is not finite and doubles after a while.

    Args:
      description: a number, or dict with `initial`, `growth_interval` (good steps in a row before it grows) and
        `factor`.

    Attributes:
      value: what to multiply losses by and to divide gradients by, a number or a float32 scalar.
      dynamic: whether steps with gradients that are not finite are skipped.
      variables: dict of name to variable: "loss_scale" and "good_steps" of a dynamic one.

    Source: tensorflow/contrib/mixed_precision/python/loss_scale_manager.py (1.15), without its minimum of 1 and with
    one bad step, not two, before the scale falls.
    Counterpart: torch.amp.GradScaler
    """

    def __init__(self, description: Any) -> None:
        self.dynamic = isinstance(description, dict)
        self.variables = {}
        self._description = description
        if self.dynamic:
            # float32 whatever the towers' dtype; a power of two, as the default is, scales without rounding.
            initial = tf.constant_initializer(np.float32(description["initial"]), tf.float32)
            self.variables = {
                "loss_scale": _counter("loss_scale", initial, tf.float32),
                "good_steps": _counter("good_steps", tf.zeros_initializer(), tf.int32),
            }
        # One read for the whole step: losses and gradients of all towers have the same scale.
        self.value = tf.identity(self.variables["loss_scale"]) if self.dynamic else description

    def move(self, finite: Tensor) -> Operation:
        """Builds the op that moves a dynamic scale after a step; `finite` says whether its gradients were."""
        scale, good = self.variables["loss_scale"], self.variables["good_steps"]
        factor = tf.constant(self._description["factor"], tf.float32)
        # This step counts as well: after growth_interval good steps in a row the next one has the larger scale.
        grown = tf.equal(good + 1, self._description["growth_interval"])
        new_scale = tf.where(finite, tf.where(grown, self.value * factor, self.value), self.value / factor)
        # From 0 again after a bad step, and after growing.
        new_good = tf.where(tf.logical_and(finite, tf.logical_not(grown)), good + 1, 0)
        # Both old values are read before either is written: reference variables are read where they stand.
        with tf.control_dependencies([new_scale, new_good]):
            return tf.group(tf.assign(scale, new_scale), tf.assign(good, new_good))


def _counter(name: str, initializer: Any, dtype: DType) -> Variable:
    return tf.get_variable(name, [], dtype, initializer, trainable=False)
