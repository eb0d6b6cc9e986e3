"""Makes learning rates that change with the global step."""

from collections.abc import Callable, Mapping
from typing import Any

from torch_ddp import like_tf
from torch_ddp.errors import TorchDdpError

Schedule = Callable[[int], float]
SCHEDULES: dict[str, Callable[..., Schedule]] = {
    "cosine_decay": like_tf.cosine_decay,
    "cosine_decay_restarts": like_tf.cosine_decay_restarts,
    "exponential_decay": like_tf.exponential_decay,
    "inverse_time_decay": like_tf.inverse_time_decay,
    "natural_exp_decay": like_tf.natural_exp_decay,
    "piecewise_constant": like_tf.piecewise_constant,
    "polynomial_decay": like_tf.polynomial_decay,
}


def make_schedule(description: Mapping[str, Any]) -> Schedule:
    """Makes the function from the global step before an update to the learning rate of that update.

    Args:
      description: `schedule`, a name of `SCHEDULES`, and what the TensorFlow function of that name takes.

    Raises:
      TorchDdpError: the schedule is unknown, or does not take what is given.

    Counterpart: tf_towers.make_learning_rate
    """
    settings = dict(description)
    name = settings.pop("schedule", None)
    if name not in SCHEDULES:
        raise TorchDdpError(
            f"learning_rate: expected schedule to be one of {', '.join(sorted(SCHEDULES))}, got {name!r}."
        )
    try:
        return SCHEDULES[name](**settings)
    except TypeError as error:
        raise TorchDdpError(
            f"learning_rate: expected what {name} takes, got {', '.join(sorted(settings))}: {error}. "
            "Use TensorFlow's own names."
        ) from error
