"""Schedules along half a cosine, once or with restarts."""

import math

import numpy as np

from torch_ddp.like_tf.schedules.float32_math import (
    Schedule,
    check_steps,
    cosine,
    divide,
    logarithm,
    power,
    scaled_fraction,
)

_ONE, _HALF, _PI = np.float32(1), np.float32(0.5), np.float32(math.pi)


def cosine_decay(learning_rate: float, decay_steps: int, alpha: float = 0.0, optimized: bool = True) -> Schedule:
    """Returns ``step -> learning_rate * ((1 - alpha) * (1 + cos(pi * step / decay_steps)) / 2 + alpha)``.

    The step stops at decay_steps. Source: CosineDecay in
    tensorflow/python/keras/optimizer_v2/learning_rate_schedule.py, 1.15.

    Args:
        learning_rate: the rate at step 0.
        decay_steps: steps to the end value; positive.
        alpha: the end value as a fraction of learning_rate.
        optimized: whether TensorFlow's graph optimizer ran, which is its default; see ``float32_math.divide``.

    Returns:
        A function from the step before its increment to a float32 number.

    Raises:
        LikeTfError: decay_steps is not positive.

    Counterpart: tf.compat.v1.train.cosine_decay.
    """
    check_steps("cosine_decay", decay_steps)
    first, rest, end = np.float32(learning_rate), np.float32(1 - alpha), np.float32(alpha)

    def at(step: int) -> float:
        angle = scaled_fraction(_PI, min(np.float32(step), np.float32(decay_steps)), decay_steps, optimized)
        return float(first * (rest * (_HALF * (_ONE + cosine(angle))) + end))

    return at


def cosine_decay_restarts(
    learning_rate: float,
    first_decay_steps: int,
    t_mul: float = 2.0,
    m_mul: float = 1.0,
    alpha: float = 0.0,
    optimized: bool = True,
) -> Schedule:
    """Returns cosine decays one after the other, each ``t_mul`` times as long and ``m_mul`` times as high.

    The restart is found from float32 logarithms, as in the graph. Source:
    CosineDecayRestarts in tensorflow/python/keras/optimizer_v2/learning_rate_schedule.py, 1.15.

    Args:
        learning_rate: the rate at step 0.
        first_decay_steps: steps of the first decay; positive.
        t_mul: growth of the length.
        m_mul: growth of the height.
        alpha: the end value as a fraction of learning_rate.
        optimized: whether TensorFlow's graph optimizer ran, which is its default; see ``float32_math.divide``.

    Returns:
        A function from the step before its increment to a float32 number.

    Raises:
        LikeTfError: first_decay_steps is not positive.

    Counterpart: tf.compat.v1.train.cosine_decay_restarts.
    """
    check_steps("cosine_decay_restarts", first_decay_steps)
    first, end = np.float32(learning_rate), np.float32(alpha)
    longer, higher = np.float32(t_mul), np.float32(m_mul)

    def at(step: int) -> float:
        restarts, fraction = _within(divide(np.float32(step), first_decay_steps, optimized), longer)
        height = power(higher, restarts)
        return float(first * ((_ONE - end) * (_HALF * height * (_ONE + cosine(_PI * fraction))) + end))

    return at


def _within(fraction: np.float32, longer: np.float32) -> tuple[np.float32, np.float32]:
    if longer == 1:
        whole = np.float32(np.floor(fraction))
        return whole, fraction - whole
    restarts = np.float32(np.floor(logarithm(_ONE - fraction * (_ONE - longer)) / logarithm(longer)))
    length = power(longer, restarts)
    return restarts, (fraction - (_ONE - length) / (_ONE - longer)) / length
