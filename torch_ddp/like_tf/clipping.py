"""Clips gradients as TensorFlow does: by value, by norm, by global norm."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from torch_ddp.like_tf.arguments import also_named
from torch_ddp.like_tf.errors import LikeTfError


def global_norm(tensors: Iterable[Tensor | None]) -> Tensor:
    """Returns the Euclidean norm of all tensors together.

    Of a sparse tensor the stored values count, as in TensorFlow: rows that were looked up twice and are not summed yet
    (not coalesced) count as two. DistributedDataParallel hands such gradients over summed: then take the norm of the
    gradient at the output of the embedding on each rank and give the whole as ``use_norm``. Source: global_norm in
    tensorflow/python/ops/clip_ops.py, 1.15.

    Args:
        tensors: any shapes, dense or sparse COO; None is left out.

    Returns:
        Shape [].

    Raises:
        LikeTfError: there is no tensor.

    Counterpart: tf.compat.v1.global_norm.
    """
    # Halved, summed and doubled, as L2Loss and global_norm do it. Both are exact in binary, so that the bits are
    # those of the plain sum. A list of scalars, shape [].
    halves = [_values(tensor).square().sum() / 2 for tensor in tensors if tensor is not None]
    if not halves:
        raise LikeTfError("global_norm: expected at least one tensor, got none. Call it after backward().")
    return (torch.stack([half.to(halves[0].device) for half in halves]).sum() * 2.0).sqrt()


@also_named(clip_norm="max_norm")
def clip_by_global_norm(
    tensors: Sequence[Tensor | None], max_norm: float, use_norm: Tensor | None = None
) -> tuple[list[Tensor | None], Tensor]:
    """Scales all tensors by ``max_norm * min(1 / norm, 1 / max_norm)``.

    torch's clip_grad_norm_ adds 1e-6 to the norm. A norm that is infinite or NaN makes every tensor NaN. Source:
    clip_by_global_norm in tensorflow/python/ops/clip_ops.py, 1.15.

    Args:
        tensors: any shapes, dense or sparse COO; None stays None.
        max_norm: largest norm; positive.
        use_norm: the norm, shape [], where it is known already.

    Returns:
        The scaled tensors, and the norm before scaling, shape [].

    Raises:
        LikeTfError: there is no tensor.

    Counterpart: tf.compat.v1.clip_by_global_norm.
    """
    norm = global_norm(tensors) if use_norm is None else use_norm
    scale = _scale(norm, max_norm)
    return [None if tensor is None else tensor * scale.to(tensor.device) for tensor in tensors], norm


@also_named(clip_norm="max_norm")
@torch.no_grad()
def clip_grads_by_global_norm_(parameters: Iterable[Tensor], max_norm: float) -> Tensor:
    """Scales the gradients of parameters in place; see ``clip_by_global_norm``.

    Args:
        parameters: parameters after backward; those without a gradient are left out.
        max_norm: largest norm; positive.

    Returns:
        The norm before scaling, shape [].

    Raises:
        LikeTfError: no parameter has a gradient.
    """
    grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = global_norm(grads)
    scale = _scale(norm, max_norm)
    for grad in grads:
        grad.mul_(scale.to(grad.device))
    return norm


def _scale(norm: Tensor, max_norm: float) -> Tensor:
    limit = torch.full_like(norm, max_norm)
    # Two reciprocals and a product, up to 2 * 2^-24 away from limit / norm (100,000 norms in float32). With nothing
    # to clip it is limit * (1 / limit), which for 41, 47 or 55 is 1 - 6e-8: TensorFlow shrinks such gradients too.
    scale = limit * torch.minimum(1.0 / norm, 1.0 / limit)
    # A norm of infinity gives a scale of 0, and so gradients of 0, NaN where they are infinite: NaN in all cannot be
    # overlooked.
    return torch.where(norm.isfinite(), scale, torch.nan)


def _values(tensor: Tensor) -> Tensor:
    return tensor._values() if tensor.layout is torch.sparse_coo else tensor


@also_named(clip_norm="max_norm", axes="dim")
def clip_by_norm(x: Tensor, max_norm: float, dim: int | tuple[int, ...] | None = None) -> Tensor:
    """Scales a tensor down to a Euclidean norm: ``x * max_norm / max(norm, max_norm)``.

    Each tensor has its own norm here; this is what slim's clip_gradient_norms does to each gradient. Source:
    clip_by_norm in tensorflow/python/ops/clip_ops.py, 1.15.

    Args:
        x: any shape.
        max_norm: largest norm; positive.
        dim: axes to sum over, or None for all.

    Returns:
        The shape of ``x``.

    Counterpart: tf.compat.v1.clip_by_norm.
    """
    dims = tuple(range(x.dim())) if dim is None else dim
    squares = x.square().sum(dims, keepdim=True) if x.dim() else x.square()
    positive = squares > 0
    # As in TensorFlow, the root of a zero is not taken, so that its gradient is 0 and not NaN.
    norm = torch.where(positive, torch.where(positive, squares, 1.0).sqrt(), squares)
    limit = torch.full_like(norm, max_norm)
    # Product first, as in TensorFlow: x * (max_norm / norm) rounds otherwise.
    return x * max_norm / torch.where(norm >= limit, norm, limit)


@also_named(min="clip_value_min", max="clip_value_max")
def clip_by_value(x: Tensor, clip_value_min: float, clip_value_max: float) -> Tensor:
    """Limits each element; an element on the limit passes its gradient on.

    Source: clip_by_value in tensorflow/python/ops/clip_ops.py, 1.15.

    Args:
        x: any shape.
        clip_value_min: least value, also by torch's name, min.
        clip_value_max: largest value, also by torch's name, max.

    Returns:
        The shape of ``x``.

    Counterpart: tf.compat.v1.clip_by_value.
    """
    return x.clamp(clip_value_min, clip_value_max)
