"""Scaling to unit length, with the floor under the sum of squares."""

import torch
from torch import Tensor


def l2_normalize(x: Tensor, axis: int | tuple[int, ...], epsilon: float = 1e-12) -> Tensor:
    """Scales to unit length: ``x * rsqrt(max(sum(x * x), epsilon))``.

    torch's ``normalize`` has its floor under the length and not under its square: vectors shorter than 1e-6 come out
    otherwise. Source: l2_normalize_v2 in tensorflow/python/ops/nn_impl.py, 1.15.

    Args:
        x: any shape.
        axis: one axis or more to sum over.
        epsilon: least sum of squares.

    Returns:
        The shape of ``x``.

    Counterpart: tf.compat.v1.nn.l2_normalize.
    """
    squares = x.square().sum(axis, keepdim=True)
    floor = torch.full_like(squares, epsilon)
    # TensorFlow's maximum gives a tie to its first argument, torch's halves it.
    return x * torch.where(squares >= floor, squares, floor).rsqrt()
