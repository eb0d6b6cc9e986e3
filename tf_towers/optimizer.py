"""Makes the optimizer that a case describes, and names its state."""

import numpy as np
import tensorflow.compat.v1 as tf

from tf_towers.errors import TowerError


def make_optimizer(description):
    """Makes a `tf.train` optimizer.

    Args:
      description: dict with `name` ("sgd", "momentum" or "adam"), `learning_rate`, and the hyper-parameters that the
        optimizer has: `momentum`, `use_nesterov`; `beta1`, `beta2`, `epsilon`.

    Raises:
      TowerError: the name is another one.
    """
    settings = dict(description)
    name = settings.pop("name")
    makers = {
        "sgd": tf.train.GradientDescentOptimizer,
        "momentum": tf.train.MomentumOptimizer,
        "adam": tf.train.AdamOptimizer,
    }
    if name not in makers:
        raise TowerError(f"optimizer: expected one of {', '.join(sorted(makers))}, got {name!r}.")
    return makers[name](**settings)


def hyper_parameters(optimizer):
    """Returns the optimizer's class and its hyper-parameters as the graph holds them, rounded to float32.

    Returns:
      Dict of JSON values: `name`, and e.g. `learning_rate`, `momentum`, `use_nesterov`, `beta1`.
    """
    found = {"name": type(optimizer).__name__}
    names = {
        "_learning_rate": "learning_rate",
        "_lr": "learning_rate",
        "_momentum": "momentum",
        "_beta1": "beta1",
        "_beta2": "beta2",
        "_epsilon": "epsilon",
        "_use_nesterov": "use_nesterov",
    }
    for attribute, name in names.items():
        value = getattr(optimizer, attribute, None)
        if isinstance(value, bool):
            found[name] = value
        elif isinstance(value, (int, float)):
            found[name] = float(np.float32(value))
    return found


def learning_rate(optimizer):
    """Returns the float32 scalar that the updates multiply by, or None where the optimizer keeps none."""
    for attribute in ("_lr_t", "_learning_rate_tensor"):
        tensor = getattr(optimizer, attribute, None)
        if tensor is not None:
            return tensor
    return None


def slot_variables(optimizer, variables):
    """Returns the slots as a dict of ``(slot name, variable name)`` to variable, in TensorFlow's order."""
    slots = {}
    for slot in optimizer.get_slot_names():
        for variable in variables:
            found = optimizer.get_slot(variable, slot)
            if found is not None:
                slots[(slot.lower(), variable.op.name)] = found
    return slots
