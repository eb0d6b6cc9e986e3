"""Reads an optimizer's hyper-parameters as the graph holds them."""

import numpy as np
import tensorflow as real
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import tensor_util

from tf_towers.optimizer import HYPER_PARAMETERS

RATES = ("_lr_t", "_learning_rate_tensor", "_lr", "_learning_rate", "learning_rate")


def hyper_parameters(optimizer):
    """Returns the optimizer's class as `name`, and its constant hyper-parameters, rounded to float32 as TF does.

    What changes from step to step, or is fed, is left out: see ``state/learning_rate`` in the steps.
    """
    found = {"name": type(optimizer).__name__}
    for attribute, name in HYPER_PARAMETERS.items():
        value = getattr(optimizer, attribute, None)
        if tf.is_tensor(value) and not isinstance(value, real.Variable):
            constant = tensor_util.constant_value(value)
            value = float(constant) if constant is not None and np.size(constant) == 1 else None
        if isinstance(value, bool):
            found[name] = value
        elif isinstance(value, (int, float, np.floating)):
            found[name] = float(np.float32(value))
    return found


def learning_rate(optimizer):
    """Returns the scalar tensor that the updates multiply by, or None where the optimizer keeps none."""
    for attribute in RATES:
        value = getattr(optimizer, attribute, None)
        if tf.is_tensor(value) and not isinstance(value, real.Variable):
            return value
        if isinstance(value, real.Variable):
            return getattr(value, "_graph_element", None) if hasattr(value, "handle") else value.value()
    return None
