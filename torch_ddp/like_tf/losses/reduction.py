"""How tf.losses weighs and reduces."""

from collections.abc import Callable

import torch
from torch import Tensor

from torch_ddp.like_tf.errors import LikeTfError

SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"


def compute_weighted_loss(
    losses: Tensor, weights: Tensor | float = 1.0, reduction: str = SUM_BY_NONZERO_WEIGHTS
) -> Tensor:
    """Weighs and reduces losses, **in float32** whatever their dtype.

    By default the weighted sum is divided by the number of losses whose weight is not zero; with none it is 0. Source:
    compute_weighted_loss in tensorflow/python/ops/losses/losses_impl.py, 1.15. TensorFlow also adds the result to a
    collection of losses; here it is only returned.

    Args:
        losses: any shape.
        weights: a number, or a tensor of as many axes as losses, each of them 1 or that of losses.
        reduction: a value of tf.losses.Reduction: "none", "weighted_sum", "weighted_mean" (divided by the sum of
            weights), "weighted_sum_over_batch_size" (by the number of losses) or
            "weighted_sum_by_nonzero_weights", the default.

    Returns:
        Shape [], or that of losses for "none"; the dtype of losses.

    Raises:
        LikeTfError: the weights do not fit the losses, or the reduction is unknown.

    Counterpart: tf.compat.v1.losses.compute_weighted_loss.
    """
    reduce = _REDUCTIONS.get(reduction)
    if reduce is None:
        raise LikeTfError(
            f"compute_weighted_loss: expected a reduction of {sorted(_REDUCTIONS)}, got {reduction!r}. "
            "Name one of them."
        )
    single = losses.to(torch.float32)
    scale = torch.as_tensor(weights, device=losses.device).to(torch.float32)
    fits = scale.dim() == single.dim() and all(w in (1, n) for w, n in zip(scale.shape, single.shape, strict=True))
    if scale.dim() and not fits:
        raise LikeTfError(
            f"compute_weighted_loss: expected weights that fit losses of shape {tuple(losses.shape)}, "
            f"got {tuple(scale.shape)}. Give each axis, 1 where the weights do not depend on it."
        )
    return reduce(single * scale, scale.expand_as(single)).to(losses.dtype)


def _mean(weighted: Tensor, count: Tensor) -> Tensor:
    total = weighted.sum()
    some = count != 0
    return torch.where(some, total / torch.where(some, count, 1.0), 0.0)


def _by_nonzero(weighted: Tensor, weights: Tensor) -> Tensor:
    return _mean(weighted, (weights != 0).sum(dtype=torch.float32))


def _by_weights(weighted: Tensor, weights: Tensor) -> Tensor:
    return _mean(weighted, weights.sum())


def _by_number(weighted: Tensor, weights: Tensor) -> Tensor:
    return _mean(weighted, weights.new_tensor(float(weighted.numel())))


def _sum(weighted: Tensor, weights: Tensor) -> Tensor:
    return weighted.sum()


def _none(weighted: Tensor, weights: Tensor) -> Tensor:
    return weighted


_REDUCTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "none": _none,
    "weighted_sum": _sum,
    "weighted_mean": _by_weights,
    "weighted_sum_over_batch_size": _by_number,
    SUM_BY_NONZERO_WEIGHTS: _by_nonzero,
}
