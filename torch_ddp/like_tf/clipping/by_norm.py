"""Clipping tensor by tensor."""

import torch
from torch import Tensor


def clip_by_norm(x: Tensor, clip_norm: float, axes: int | tuple[int, ...] | None = None) -> Tensor:
    """Scales a tensor down to a Euclidean norm: ``x * clip_norm / max(norm, clip_norm)``.

    Each tensor has its own norm here; this is what slim's clip_gradient_norms does to each gradient. Source:
    clip_by_norm in tensorflow/python/ops/clip_ops.py, 1.15.

    Args:
        x: any shape.
        clip_norm: largest norm; positive.
        axes: axes to sum over, or None for all.

    Returns:
        The shape of ``x``.

    Counterpart: tf.compat.v1.clip_by_norm.
    """
    dims = tuple(range(x.dim())) if axes is None else axes
    squares = x.square().sum(dims, keepdim=True) if x.dim() else x.square()
    positive = squares > 0
    # As in TensorFlow, the root of a zero is not taken, so that its gradient is 0 and not NaN.
    norm = torch.where(positive, torch.where(positive, squares, 1.0).sqrt(), squares)
    limit = torch.full_like(norm, clip_norm)
    return x * clip_norm / torch.where(norm >= limit, norm, limit)
