"""A schedule that falls to an end value along a power, once or in cycles."""

import numpy as np

from torch_ddp.like_tf.schedules.float32_math import Schedule, check_steps, divide
from torch_ddp.like_tf.schedules.float32_math import power as raise_to


def polynomial_decay(
    learning_rate: float,
    decay_steps: int,
    end_learning_rate: float = 0.0001,
    power: float = 1.0,
    cycle: bool = False,
    optimized: bool = True,
) -> Schedule:
    """Returns ``step -> (learning_rate - end) * (1 - step / decay_steps) ** power + end``.

    Without ``cycle`` the step stops at decay_steps; with it decay_steps is multiplied up to the step, so that the rate
    jumps up after each multiple. Source: PolynomialDecay in
    tensorflow/python/keras/optimizer_v2/learning_rate_schedule.py, 1.15.

    Args:
        learning_rate: the rate at step 0.
        decay_steps: steps to the end value; positive.
        end_learning_rate: the end value.
        power: the power; 1 is a straight line.
        cycle: whether it starts again.
        optimized: whether TensorFlow's graph optimizer ran, which is its default; see ``float32_math.divide``.

    Returns:
        A function from the step before its increment to a float32 number.

    Raises:
        LikeTfError: decay_steps is not positive.

    Counterpart: tf.compat.v1.train.polynomial_decay.
    """
    check_steps("polynomial_decay", decay_steps)
    first, end, exponent = np.float32(learning_rate), np.float32(end_learning_rate), np.float32(power)

    def at(step: int) -> float:
        now, steps = np.float32(step), np.float32(decay_steps)
        if cycle:
            passed = now / (steps * (np.float32(1) if now == 0 else np.float32(np.ceil(now / steps))))
        else:
            passed = divide(min(now, steps), decay_steps, optimized)
        return float((first - end) * raise_to(np.float32(1) - passed, exponent) + end)

    return at
