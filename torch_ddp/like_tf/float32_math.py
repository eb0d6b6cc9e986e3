"""Float32 arithmetic as TensorFlow's CPU kernels and its graph optimizer do it."""

import ctypes
import math
from collections.abc import Callable
from functools import cache
from typing import Any, cast

import numpy as np

from torch_ddp.like_tf.errors import LikeTfError

Schedule = Callable[[int], float]


def power(base: np.float32, exponent: np.float32) -> np.float32:
    """Raises to a power with the C library's ``powf``, as the kernel does for a single number.

    Args:
        base: zero or positive.
        exponent: any.

    Returns:
        A float32 number; at times a unit in the last place away from the correctly rounded one.
    """
    return np.float32(_libm("powf", 2)(base, exponent))


def cosine(x: np.float32) -> np.float32:
    """Takes the cosine with the C library's ``cosf``.

    Args:
        x: an angle in radians.

    Returns:
        A float32 number.
    """
    return np.float32(_libm("cosf", 1)(x))


def logarithm(x: np.float32) -> np.float32:
    """Takes the natural logarithm with the C library's ``logf``.

    Args:
        x: positive.

    Returns:
        A float32 number.
    """
    return np.float32(_libm("logf", 1)(x))


def divide(x: np.float32, constant: float, optimized: bool) -> np.float32:
    """Divides by a constant of the graph.

    The graph optimizer makes a product with the float32 reciprocal of it, so that 41 / 41 is below 1. Source:
    ConstantFolding::ReduceDivToReciprocalMul in tensorflow/core/grappler/optimizers/constant_folding.cc, 1.15.

    Args:
        x: what is divided.
        constant: the divisor.
        optimized: whether the graph optimizer ran.

    Returns:
        A float32 number.
    """
    # 41 * float32(1 / 41) is 1 - 6e-8, and of the divisors 1 to 2000 271 are like it: 41, 47, 55, 61 are the first.
    # With a staircase each stair of theirs comes a step late.
    divisor = np.float32(constant)
    return x * (np.float32(1) / divisor) if optimized else x / divisor


def scaled_fraction(factor: np.float32, x: np.float32, constant: float, optimized: bool) -> np.float32:
    """Multiplies a constant of the graph by a fraction with a constant divisor: ``factor * (x / constant)``.

    The graph optimizer multiplies both constants beforehand.

    Args:
        factor: the constant in front.
        x: what is divided.
        constant: the divisor.
        optimized: whether the graph optimizer ran.

    Returns:
        A float32 number.
    """
    if optimized:
        return divide(factor, constant, optimized) * x
    return factor * divide(x, constant, optimized)


def check_steps(who: str, steps: int) -> None:
    """Checks a number of steps that will be divided by.

    Args:
        who: the caller, for the message.
        steps: the number.

    Raises:
        LikeTfError: it is not positive.
    """
    if steps <= 0:
        raise LikeTfError(f"{who}: expected a positive number of steps, got {steps}. Give the length of one period.")


@cache
def _libm(name: str, arguments: int) -> Callable[..., float]:
    try:
        function: Any = getattr(ctypes.CDLL(None), name)
    # TypeError is what Windows raises, where None names no library.
    except (AttributeError, TypeError, OSError):  # no such symbol in this process: round the double instead
        function = {"powf": math.pow, "cosf": math.cos, "logf": math.log}[name]
        return cast(Callable[..., float], function)
    function.restype = ctypes.c_float
    function.argtypes = [ctypes.c_float] * arguments
    return cast(Callable[..., float], function)
