"""Makes learning rates that change with the global step."""

from typing import Any, Callable, Dict, Sequence

import tensorflow.compat.v1 as tf

from tf_towers.errors import TowerError
from tf_towers.tf_types import Tensor, Variable


def make_learning_rate(description: Any, global_step: Variable) -> Any:
    """Makes the learning rate that a case describes.

    Args:
      description: a number; or dict with `schedule`, a name of `SCHEDULES`, and what the TensorFlow function of that name
        takes, e.g. ``{"schedule": "exponential_decay", "learning_rate": 0.1, "decay_steps": 100, "decay_rate": 0.9}``.
        Two keys go with every schedule: `step_size` counts that many for each update, where a schedule counts tower
        batches (the number of towers) or examples (the batch size) and not updates; `warm_up_steps` multiplies the rate
        by ``step / warm_up_steps`` until it is 1.
      global_step: int64 variable, counts updates. Its value before the update decides.

    Returns:
      The number, or a float32 scalar.

    Raises:
      TowerError: the schedule is unknown, or TensorFlow refuses what it is given.

    Source: tensorflow/python/training/learning_rate_decay.py (1.15).
    Counterpart: torch_ddp.like_tf.Scheduler
    """
    if not isinstance(description, dict):
        return description
    settings = dict(description)
    name = settings.pop("schedule", None)
    if name not in SCHEDULES:
        raise TowerError(f"learning_rate: expected schedule to be one of {', '.join(sorted(SCHEDULES))}, got {name!r}.")
    # int64, so that a count of examples does not overflow.
    # The cifar10 tutorial counts tower batches, youtube-8m and pointnet2 count examples.
    step = global_step * settings.pop("step_size", 1)
    warm_up = settings.pop("warm_up_steps", 0)
    try:
        rate = SCHEDULES[name](step, **settings)
    except TypeError as error:
        raise TowerError(
            f"learning_rate: expected what tf.train.{name} takes, got {', '.join(sorted(settings))}: {error}. "
            "Name its own arguments."
        ) from error
    return _warmed_up(rate, step, warm_up) if warm_up else rate


def _on_rate(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda step, learning_rate, **settings: function(learning_rate, step, **settings)


def _piecewise_constant(step: Tensor, boundaries: Sequence[int], values: Sequence[float]) -> Tensor:
    # The boundaries must have the step's dtype; the old value holds while step <= boundary.
    return tf.train.piecewise_constant(step, [tf.constant(one, tf.int64) for one in boundaries], list(values))


def _constant(step: Tensor, learning_rate: float) -> Tensor:
    return tf.constant(learning_rate, tf.float32)


def _warmed_up(rate: Tensor, step: Tensor, steps: int) -> Tensor:
    # float32 throughout, as the graph of a script would have it.
    return rate * tf.minimum(tf.cast(step, tf.float32) / tf.constant(float(steps), tf.float32), 1.0)


SCHEDULES: Dict[str, Callable[..., Tensor]] = {
    "constant": _constant,
    "cosine_decay": _on_rate(tf.train.cosine_decay),
    "cosine_decay_restarts": _on_rate(tf.train.cosine_decay_restarts),
    "exponential_decay": _on_rate(tf.train.exponential_decay),
    "inverse_time_decay": _on_rate(tf.train.inverse_time_decay),
    "linear_cosine_decay": _on_rate(tf.train.linear_cosine_decay),
    "natural_exp_decay": _on_rate(tf.train.natural_exp_decay),
    "piecewise_constant": _piecewise_constant,
    "polynomial_decay": _on_rate(tf.train.polynomial_decay),
}
