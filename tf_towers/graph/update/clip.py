"""Clips gradients as TensorFlow 1 does, dense and sparse."""

from typing import NamedTuple

import tensorflow.compat.v1 as tf

from tf_towers.errors import TowerError
from tf_towers.tf_types import Gradient, Pairs, Tensor


class Clipped(NamedTuple):
    """Clipped gradients.

    Fields:
      gradients: list of ``(gradient, variable)`` in the order given; None stays None.
      norm: the global norm before clipping, or None where none was needed.
    """

    gradients: Pairs
    norm: Tensor


def clip_gradients(gradients: Pairs, by: str, limit: float, sum_duplicates: bool = False) -> Clipped:
    """Clips gradients.

    Args:
      gradients: list of ``(gradient, variable)``; a gradient is a tensor, `tf.IndexedSlices` or None.
      by: "global_norm": all by one factor, so that their joint norm is at most `limit`; "norm": each one by its own norm;
        "value": each element to ``-limit .. limit``.
      limit: positive number.
      sum_duplicates: add up the rows of `tf.IndexedSlices` that are there several times before taking norms. TensorFlow
        does not: the norm of four equal rows at one index is half of what the dense gradient's is.

    Returns:
      A `Clipped`.

    Raises:
      TowerError: `by` is none of these, or `limit` is not positive.

    Source: tensorflow/python/ops/clip_ops.py (1.15).
    Counterpart: torch_ddp.like_tf.clip_by_global_norm
    """
    if by not in ("global_norm", "norm", "value"):
        raise TowerError(f"clip_gradients: expected by to be 'global_norm', 'norm' or 'value', got {by!r}.")
    if not limit > 0:
        raise TowerError(f"clip_gradients: expected a positive limit, got {limit!r}.")
    values = [gradient for gradient, _ in gradients]
    if sum_duplicates:
        values = [sum_duplicate_rows(value) for value in values]
    norm = None
    if by == "global_norm":
        # Of rows the norm is that of .values: 2.0 for four look-ups of one row whose dense gradient has 4.0 (measured).
        values, norm = tf.clip_by_global_norm(values, limit)
    else:
        one = tf.clip_by_norm if by == "norm" else _by_value
        values = [None if value is None else one(value, limit) for value in values]
    return Clipped([(value, variable) for value, (_, variable) in zip(values, gradients)], norm)


def sum_duplicate_rows(gradient: Gradient) -> Gradient:
    """Returns `tf.IndexedSlices` with every row once, its values added up; anything else as it is."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    # (distinct,) and (rows,): where each row's values are added up
    rows, places = tf.unique(gradient.indices)
    values = tf.unsorted_segment_sum(gradient.values, places, tf.shape(rows)[0])
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


def _by_value(gradient: Gradient, limit: float) -> Tensor:
    return tf.clip_by_value(gradient, -limit, limit)
