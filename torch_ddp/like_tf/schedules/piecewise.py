"""A schedule of constants."""

import itertools
from collections.abc import Sequence

from torch_ddp.like_tf.errors import LikeTfError
from torch_ddp.like_tf.graph_scalar import graph_float
from torch_ddp.like_tf.schedules.float32_math import Schedule


def piecewise_constant(boundaries: Sequence[int], values: Sequence[float]) -> Schedule:
    """Returns a function that is ``values[i]`` while the step is **at most** ``boundaries[i]``.

    torch's MultiStepLR changes at its milestone, one step earlier. Source: PiecewiseConstantDecay in
    tensorflow/python/keras/optimizer_v2/learning_rate_schedule.py, 1.15.

    Args:
        boundaries: last step of each value but the last one, increasing.
        values: one more than boundaries.

    Returns:
        A function from the step before its increment to a float32 number.

    Raises:
        LikeTfError: the numbers of boundaries and values do not fit, or the boundaries do not increase.

    Counterpart: tf.compat.v1.train.piecewise_constant.
    """
    if len(values) != len(boundaries) + 1:
        raise LikeTfError(
            f"piecewise_constant: expected one value more than the {len(boundaries)} boundaries, got {len(values)}. "
            "Give the first and the last value too."
        )
    if any(a >= b for a, b in itertools.pairwise(boundaries)):
        raise LikeTfError(f"piecewise_constant: expected increasing boundaries, got {list(boundaries)}. Sort them.")
    rates = [graph_float(value) for value in values]

    def at(step: int) -> float:
        return rates[sum(step > boundary for boundary in boundaries)]

    return at
