"""Schedules that fall by a factor, in float32 as the graph computes them."""

import math

import numpy as np

from torch_ddp.like_tf.schedules.float32_math import Schedule, check_steps, divide, power, scaled_fraction


def exponential_decay(
    learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False, optimized: bool = True
) -> Schedule:
    """Returns ``step -> learning_rate * decay_rate ** (step / decay_steps)``.

    Every operation rounds to float32 in the graph's order. Where the reciprocal of decay_steps is rounded down,
    each stair comes a step late. Source: ExponentialDecay in
    tensorflow/python/keras/optimizer_v2/learning_rate_schedule.py, 1.15.

    Args:
        learning_rate: the rate at step 0.
        decay_steps: steps for one factor; positive.
        decay_rate: the factor.
        staircase: whether the exponent is rounded down to a whole number.
        optimized: whether TensorFlow's graph optimizer ran, which is its default; see ``float32_math.divide``.

    Returns:
        A function from the step before its increment to a float32 number.

    Raises:
        LikeTfError: decay_steps is not positive.

    Counterpart: tf.compat.v1.train.exponential_decay.
    """
    return _decaying("exponential_decay", learning_rate, decay_steps, np.float32(decay_rate), staircase, optimized)


def natural_exp_decay(
    learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False, optimized: bool = True
) -> Schedule:
    """Returns ``step -> learning_rate * exp(-decay_rate) ** (step / decay_steps)``.

    Source: natural_exp_decay in tensorflow/python/training/learning_rate_decay.py, 1.15.

    Args:
        learning_rate: the rate at step 0.
        decay_steps: steps for one factor; positive.
        decay_rate: the negative logarithm of the factor.
        staircase: whether the exponent is rounded down to a whole number.
        optimized: whether TensorFlow's graph optimizer ran, which is its default; see ``float32_math.divide``.

    Returns:
        A function from the step before its increment to a float32 number.

    Raises:
        LikeTfError: decay_steps is not positive.

    Counterpart: tf.compat.v1.train.natural_exp_decay.
    """
    factor = np.float32(math.exp(-np.float32(decay_rate)))
    return _decaying("natural_exp_decay", learning_rate, decay_steps, factor, staircase, optimized)


def inverse_time_decay(
    learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False, optimized: bool = True
) -> Schedule:
    """Returns ``step -> learning_rate / (1 + decay_rate * step / decay_steps)``.

    Source: InverseTimeDecay in tensorflow/python/keras/optimizer_v2/learning_rate_schedule.py, 1.15.

    Args:
        learning_rate: the rate at step 0.
        decay_steps: steps until the divisor has grown by decay_rate; positive.
        decay_rate: growth of the divisor.
        staircase: whether ``step / decay_steps`` is rounded down to a whole number.
        optimized: whether TensorFlow's graph optimizer ran, which is its default; see ``float32_math.divide``.

    Returns:
        A function from the step before its increment to a float32 number.

    Raises:
        LikeTfError: decay_steps is not positive.

    Counterpart: tf.compat.v1.train.inverse_time_decay.
    """
    check_steps("inverse_time_decay", decay_steps)
    first, rate = np.float32(learning_rate), np.float32(decay_rate)

    def at(step: int) -> float:
        if staircase:
            growth = rate * _passed(step, decay_steps, staircase, optimized)
        else:
            growth = scaled_fraction(rate, np.float32(step), decay_steps, optimized)
        return float(first / (np.float32(1) + growth))

    return at


def _decaying(
    who: str, learning_rate: float, decay_steps: int, factor: np.float32, staircase: bool, optimized: bool
) -> Schedule:
    check_steps(who, decay_steps)
    first = np.float32(learning_rate)

    def at(step: int) -> float:
        return float(first * power(factor, _passed(step, decay_steps, staircase, optimized)))

    return at


def _passed(step: int, decay_steps: int, staircase: bool, optimized: bool) -> np.float32:
    passed = divide(np.float32(step), decay_steps, optimized)
    return np.float32(np.floor(passed)) if staircase else passed
