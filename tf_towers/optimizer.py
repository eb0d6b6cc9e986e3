"""Makes the optimizer that a case describes, and names its state."""

import numpy as np
import tensorflow.compat.v1 as tf

from tf_towers.errors import TowerError
from tf_towers.schedules import make_learning_rate

MAKERS = {
    "sgd": tf.train.GradientDescentOptimizer,
    "momentum": tf.train.MomentumOptimizer,
    "adam": tf.train.AdamOptimizer,
    "rmsprop": tf.train.RMSPropOptimizer,
    "adagrad": tf.train.AdagradOptimizer,
    "adadelta": tf.train.AdadeltaOptimizer,
    "ftrl": tf.train.FtrlOptimizer,
}
HYPER_PARAMETERS = {
    "_learning_rate": "learning_rate",
    "_lr": "learning_rate",
    "_momentum": "momentum",
    "_use_nesterov": "use_nesterov",
    "_beta1": "beta1",
    "_beta2": "beta2",
    "_epsilon": "epsilon",
    "_decay": "decay",
    "_rho": "rho",
    "_centered": "centered",
    "_learning_rate_power": "learning_rate_power",
    "_l1_regularization_strength": "l1_regularization_strength",
    "_l2_regularization_strength": "l2_regularization_strength",
    "_l2_shrinkage_regularization_strength": "l2_shrinkage_regularization_strength",
    "_initial_accumulator_value": "initial_accumulator_value",
}
# Not through float32: it fills the slot in the variable's own dtype.
UNROUNDED = frozenset(["initial_accumulator_value"])


def make_optimizer(description):
    """Makes a `tf.train` optimizer.

    Args:
      description: dict with `name` (a key of `MAKERS`), `learning_rate` (a number, or a schedule: see
        `make_learning_rate`), and whatever else the optimizer takes, by TensorFlow's names: `momentum`, `use_nesterov`;
        `beta1`, `beta2`, `epsilon`; `decay`, `centered`; `rho`; `initial_accumulator_value`; ...

    Raises:
      TowerError: the name is another one, or TensorFlow does not know an argument.
    """
    settings = dict(description)
    name = settings.pop("name")
    if name not in MAKERS:
        raise TowerError(f"optimizer: expected one of {', '.join(sorted(MAKERS))}, got {name!r}.")
    if isinstance(settings.get("learning_rate"), dict):
        settings["learning_rate"] = make_learning_rate(settings["learning_rate"], tf.train.get_or_create_global_step())
    try:
        return MAKERS[name](**settings)
    except TypeError as error:
        raise TowerError(
            f"optimizer: expected what {MAKERS[name].__name__} takes, got {', '.join(sorted(settings))}: {error}. "
            "Use TensorFlow's own names."
        ) from error


def hyper_parameters(optimizer):
    """Returns the optimizer's class and its hyper-parameters as the graph holds them, rounded to float32.

    Returns:
      Dict of JSON values: `name`, and e.g. `learning_rate` ("scheduled" where it changes), `momentum`, `use_nesterov`,
      `beta1`.
    """
    found = {"name": type(optimizer).__name__}
    for attribute, name in HYPER_PARAMETERS.items():
        value = getattr(optimizer, attribute, None)
        if isinstance(value, bool) or (name in UNROUNDED and value is not None):
            found[name] = value
        elif isinstance(value, (int, float)):
            found[name] = float(np.float32(value))
        elif isinstance(value, tf.Tensor):
            found[name] = "scheduled"
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
