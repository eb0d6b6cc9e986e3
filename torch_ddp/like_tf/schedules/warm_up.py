"""A linear start in front of any schedule."""

import numpy as np

from torch_ddp.like_tf.schedules.float32_math import Schedule, check_steps, scaled_fraction


def linear_warm_up(learning_rate: float, warm_up_steps: int, schedule: Schedule, optimized: bool = True) -> Schedule:
    """Returns ``learning_rate * step / warm_up_steps`` before step warm_up_steps, and the schedule from there on.

    The schedule is not shifted: it is asked for the same step. The first step has the rate 0. Source: create_optimizer
    in optimization.py of google-research/bert.

    Args:
        learning_rate: the rate that the warm-up goes to.
        warm_up_steps: steps until then; positive.
        schedule: what follows.
        optimized: whether TensorFlow's graph optimizer ran, which is its default; see ``float32_math.divide``.

    Returns:
        A function from the step before its increment to a float32 number.

    Raises:
        LikeTfError: warm_up_steps is not positive.
    """
    check_steps("linear_warm_up", warm_up_steps)

    def at(step: int) -> float:
        if step >= warm_up_steps:
            return schedule(step)
        return float(scaled_fraction(np.float32(learning_rate), np.float32(step), warm_up_steps, optimized))

    return at
