"""Clips gradients by TensorFlow's rule where towers do: combined and unscaled, before the update."""

import torch
from torch import Tensor, nn

from torch_ddp.like_tf import clip_by_norm, clip_grads_by_global_norm_
from torch_ddp.parallel.errors import ParallelError


@torch.no_grad()
def clip_by_global_norm_(model: nn.Module, clip_norm: float, loss_scale: float = 1.0) -> Tensor:
    """Divides a model's reduced gradients by the loss scale and clips them all by their common norm, in place.

    Args:
      model: after backward, wrapped or not; every rank gets the same.
      clip_norm: largest norm; positive.
      loss_scale: what the loss was multiplied by, and is not divided by yet; 1 after `GradScaler.unscale_`.

    Returns:
      The norm before clipping, shape []; not finite after an overflow, which makes every gradient NaN.

    Raises:
      ParallelError: the gradients are not reduced yet, or a number is not positive.
      LikeTfError: there is no gradient.

    Counterpart: tf.compat.v1.clip_by_global_norm
    """
    _check("clip_by_global_norm_", model, clip_norm, loss_scale)
    _unscale(model, loss_scale)
    return clip_grads_by_global_norm_(model.parameters(), clip_norm)


@torch.no_grad()
def clip_by_norm_(model: nn.Module, clip_norm: float, loss_scale: float = 1.0) -> None:
    """Divides a model's reduced gradients by the loss scale and clips each variable's by its own norm, in place.

    Args:
      model: after backward, wrapped or not; every rank gets the same.
      clip_norm: largest norm; positive.
      loss_scale: what the loss was multiplied by, and is not divided by yet; 1 after `GradScaler.unscale_`.

    Raises:
      ParallelError: the gradients are not reduced yet, one is sparse, or a number is not positive.

    Counterpart: tf.compat.v1.clip_by_norm
    """
    _check("clip_by_norm_", model, clip_norm, loss_scale)
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and parameter.grad.layout is not torch.strided:
            raise ParallelError(
                f"clip_by_norm_: expected dense gradients, got a sparse one of {name}. Use Embedding(sparse=False)."
            )
    _unscale(model, loss_scale)
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.copy_(clip_by_norm(parameter.grad, clip_norm))


def _check(who: str, model: nn.Module, clip_norm: float, loss_scale: float) -> None:
    if not getattr(model, "require_backward_grad_sync", True):
        raise ParallelError(
            f"{who}: expected reduced gradients, got this rank's own, inside no_sync. Clip after the last micro-batch."
        )
    for name, number in (("clip_norm", clip_norm), ("loss_scale", loss_scale)):
        if not number > 0:
            raise ParallelError(f"{who}: expected a positive {name}, got {number}. Leave out the clipping instead.")


def _unscale(model: nn.Module, loss_scale: float) -> None:
    if loss_scale != 1.0:
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad.mul_(1.0 / loss_scale)
