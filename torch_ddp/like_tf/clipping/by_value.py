"""Clipping element by element."""

from torch import Tensor


def clip_by_value(x: Tensor, clip_value_min: float, clip_value_max: float) -> Tensor:
    """Limits each element; an element on the limit passes its gradient on.

    Source: clip_by_value in tensorflow/python/ops/clip_ops.py, 1.15.

    Args:
        x: any shape.
        clip_value_min: least value.
        clip_value_max: largest value.

    Returns:
        The shape of ``x``.

    Counterpart: tf.compat.v1.clip_by_value.
    """
    return x.clamp(clip_value_min, clip_value_max)
