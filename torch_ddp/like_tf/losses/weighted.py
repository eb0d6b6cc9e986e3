"""The losses of tf.losses, with its weights and reductions."""

from collections.abc import Callable

import torch
from torch import Tensor

from torch_ddp.like_tf.arguments import also_named
from torch_ddp.like_tf.errors import LikeTfError
from torch_ddp.like_tf.losses.cross_entropy import (
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits,
)

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
    # Also of float64 losses: TensorFlow casts them and back, so that a float64 graph has a loss of 24 bits.
    single = losses.to(torch.float32)
    # float32 as well: TensorFlow casts weights whatever they were.
    scale = torch.as_tensor(weights, device=losses.device).to(torch.float32)
    # TensorFlow broadcasts axes of length 1, never missing ones: weights of [batch] for losses of [batch, classes]
    # are a mistake.
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
    # Twice: a division by 0 that is not taken would still make the gradient NaN.
    return torch.where(some, total / torch.where(some, count, 1.0), 0.0)


def _by_nonzero(weighted: Tensor, weights: Tensor) -> Tensor:
    # Weights broadcast to the losses first: each of them counts, 1 for a weight of 0.1 too.
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


def _check_shapes(who: str, labels: Tensor, predictions: Tensor) -> None:
    # Torch would broadcast [3] against [3, 1] to nine losses of which six belong to nobody; TensorFlow raises.
    if labels.shape != predictions.shape:
        raise LikeTfError(
            f"{who}: expected labels of the shape of the predictions, {tuple(predictions.shape)}, "
            f"got {tuple(labels.shape)}. Reshape one of them."
        )


def _without_last_axis(who: str, name: str, tensor: Tensor) -> Tensor:
    if not tensor.dim() or tensor.shape[-1] != 1:
        raise LikeTfError(
            f"{who}: expected {name} whose last axis, one more than fits, has length 1, got shape {tuple(tensor.shape)}. "
            "Drop that axis."
        )
    return tensor.squeeze(-1)


def absolute_difference(
    labels: Tensor, predictions: Tensor, weights: Tensor | float = 1.0, reduction: str = SUM_BY_NONZERO_WEIGHTS
) -> Tensor:
    """Returns ``|predictions - labels|``, weighed and reduced by ``compute_weighted_loss``.

    Args:
        labels: any shape.
        predictions: the same shape.
        weights: see ``compute_weighted_loss``.
        reduction: see ``compute_weighted_loss``.

    Returns:
        float32, shape [] or that of labels.

    Raises:
        LikeTfError: labels and predictions differ in shape.

    Counterpart: tf.compat.v1.losses.absolute_difference.
    """
    _check_shapes("absolute_difference", labels, predictions)
    return compute_weighted_loss((predictions.float() - labels.float()).abs(), weights, reduction)


def mean_squared_error(
    labels: Tensor, predictions: Tensor, weights: Tensor | float = 1.0, reduction: str = SUM_BY_NONZERO_WEIGHTS
) -> Tensor:
    """Returns ``(predictions - labels) ** 2``, weighed and reduced by ``compute_weighted_loss``.

    Args:
        labels: any shape.
        predictions: the same shape.
        weights: see ``compute_weighted_loss``.
        reduction: see ``compute_weighted_loss``.

    Returns:
        float32, shape [] or that of labels.

    Raises:
        LikeTfError: labels and predictions differ in shape.

    Counterpart: tf.compat.v1.losses.mean_squared_error.
    """
    _check_shapes("mean_squared_error", labels, predictions)
    return compute_weighted_loss((predictions.float() - labels.float()).square(), weights, reduction)


def huber_loss(
    labels: Tensor,
    predictions: Tensor,
    weights: Tensor | float = 1.0,
    delta: float = 1.0,
    reduction: str = SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Returns half the square up to ``delta`` and a line of slope ``delta`` above, weighed and reduced.

    torch's smooth_l1_loss is this divided by delta.

    Args:
        labels: any shape.
        predictions: the same shape.
        weights: see ``compute_weighted_loss``.
        delta: where the line begins.
        reduction: see ``compute_weighted_loss``.

    Returns:
        float32, shape [] or that of labels.

    Raises:
        LikeTfError: labels and predictions differ in shape.

    Counterpart: tf.compat.v1.losses.huber_loss.
    """
    _check_shapes("huber_loss", labels, predictions)
    # d^2 / 2 up to delta, delta * (|d| - delta / 2) beyond: with slope delta; smooth_l1_loss(beta) has slope 1.
    losses = torch.nn.functional.huber_loss(predictions.float(), labels.float(), reduction="none", delta=delta)
    return compute_weighted_loss(losses, weights, reduction)


@also_named(epsilon="eps")
def log_loss(
    labels: Tensor,
    predictions: Tensor,
    weights: Tensor | float = 1.0,
    eps: float = 1e-7,
    reduction: str = SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Returns ``-labels * log(p + eps) - (1 - labels) * log(1 - p + eps)``, weighed and reduced.

    torch's binary_cross_entropy has no epsilon and stops each logarithm at -100.

    Args:
        labels: any shape.
        predictions: probabilities, the same shape.
        weights: see ``compute_weighted_loss``.
        eps: keeps the logarithms finite.
        reduction: see ``compute_weighted_loss``.

    Returns:
        float32, shape [] or that of labels.

    Raises:
        LikeTfError: labels and predictions differ in shape.

    Counterpart: tf.compat.v1.losses.log_loss.
    """
    _check_shapes("log_loss", labels, predictions)
    target, p = labels.float(), predictions.float()
    # 1e-7 is more than what rounding leaves of 1 - p (6e-8): no logarithm is of 0, and each is at least -16.1.
    losses = -target * (p + eps).log() - (1 - target) * (1 - p + eps).log()
    return compute_weighted_loss(losses, weights, reduction)


def hinge_loss(
    labels: Tensor, logits: Tensor, weights: Tensor | float = 1.0, reduction: str = SUM_BY_NONZERO_WEIGHTS
) -> Tensor:
    """Returns ``relu(1 - (2 * labels - 1) * logits)``, weighed and reduced by ``compute_weighted_loss``.

    Args:
        labels: 0 or 1, any shape.
        logits: the same shape.
        weights: see ``compute_weighted_loss``.
        reduction: see ``compute_weighted_loss``.

    Returns:
        float32, shape [] or that of labels.

    Raises:
        LikeTfError: labels and logits differ in shape.

    Counterpart: tf.compat.v1.losses.hinge_loss.
    """
    _check_shapes("hinge_loss", labels, logits)
    return compute_weighted_loss((1 - (2 * labels.float() - 1) * logits.float()).relu(), weights, reduction)


@also_named(axis="dim")
def cosine_distance(
    labels: Tensor,
    predictions: Tensor,
    dim: int,
    weights: Tensor | float = 1.0,
    reduction: str = SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Returns ``1 - sum(predictions * labels)`` over one axis, weighed and reduced; nothing is normalised.

    Args:
        labels: unit vectors along the axis, any shape.
        predictions: unit vectors along the axis, the same shape.
        dim: the axis, which stays with length 1.
        weights: see ``compute_weighted_loss``.
        reduction: see ``compute_weighted_loss``.

    Returns:
        float32, shape [] or that of labels with the axis of length 1.

    Raises:
        LikeTfError: labels and predictions differ in shape.

    Counterpart: tf.compat.v1.losses.cosine_distance.
    """
    _check_shapes("cosine_distance", labels, predictions)
    losses = 1 - (predictions.float() * labels.float()).sum(dim, keepdim=True)
    return compute_weighted_loss(losses, weights, reduction)


def softmax_cross_entropy(
    onehot_labels: Tensor,
    logits: Tensor,
    weights: Tensor | float = 1.0,
    label_smoothing: float = 0.0,
    reduction: str = SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Returns the cross entropy against smoothed labels ``y * (1 - s) + s / classes``, weighed and reduced.

    Source: tensorflow/python/ops/losses/losses_impl.py, 1.15. No gradient goes to the labels.

    Args:
        onehot_labels: shape [batch, classes].
        logits: shape [batch, classes].
        weights: a number or shape [batch].
        label_smoothing: s, in [0, 1].
        reduction: see ``compute_weighted_loss``.

    Returns:
        Shape [] or [batch].

    Raises:
        LikeTfError: onehot_labels and logits differ in shape.

    Counterpart: tf.compat.v1.losses.softmax_cross_entropy.
    """
    _check_shapes("softmax_cross_entropy", onehot_labels, logits)
    # Before smoothing: TensorFlow stops gradients at the labels it was given.
    labels = onehot_labels.detach().to(logits.dtype)
    if label_smoothing > 0:
        labels = labels * (1 - label_smoothing) + label_smoothing / labels.shape[1]
    return compute_weighted_loss(softmax_cross_entropy_with_logits(labels, logits), weights, reduction)


def sparse_softmax_cross_entropy(
    labels: Tensor, logits: Tensor, weights: Tensor | float = 1.0, reduction: str = SUM_BY_NONZERO_WEIGHTS
) -> Tensor:
    """Returns the cross entropy against one class each, weighed and reduced.

    Args:
        labels: int64, shape [...] or [..., 1], whose last axis is dropped.
        logits: shape [..., classes], or [..., classes, 1], whose last axis is dropped.
        weights: see ``compute_weighted_loss``, or of one more axis of length 1 at the end; not weights of classes,
            which torch divides by.
        reduction: see ``compute_weighted_loss``.

    Returns:
        Shape [] or that of labels without a dropped axis.

    Raises:
        LikeTfError: the shapes do not fit, or an axis to be dropped is not of length 1.

    Counterpart: tf.compat.v1.losses.sparse_softmax_cross_entropy.
    """
    # _remove_squeezable_dimensions in tensorflow/python/ops/losses/losses_impl.py, 1.15: by the ranks alone.
    who, given = "sparse_softmax_cross_entropy", (tuple(labels.shape), tuple(logits.shape))
    if logits.dim() - labels.dim() == 2:
        logits = _without_last_axis(who, "logits", logits)
    elif logits.dim() == labels.dim():
        labels = _without_last_axis(who, "labels", labels)
    if labels.shape != logits.shape[:-1]:
        raise LikeTfError(
            f"{who}: expected labels of shape [...] and logits of shape [..., classes], got {given[0]} and {given[1]}. "
            "Give one label for each row of logits."
        )
    if isinstance(weights, Tensor) and weights.dim() - labels.dim() == 1:
        weights = _without_last_axis(who, "weights", weights)
    return compute_weighted_loss(sparse_softmax_cross_entropy_with_logits(labels, logits), weights, reduction)


def sigmoid_cross_entropy(
    multi_class_labels: Tensor,
    logits: Tensor,
    weights: Tensor | float = 1.0,
    label_smoothing: float = 0.0,
    reduction: str = SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Returns the cross entropy of each class against smoothed labels ``y * (1 - s) + s / 2``, weighed and reduced.

    Args:
        multi_class_labels: probabilities, shape [batch, classes].
        logits: shape [batch, classes].
        weights: see ``compute_weighted_loss``.
        label_smoothing: s, in [0, 1].
        reduction: see ``compute_weighted_loss``.

    Returns:
        Shape [] or [batch, classes].

    Raises:
        LikeTfError: multi_class_labels and logits differ in shape.

    Counterpart: tf.compat.v1.losses.sigmoid_cross_entropy.
    """
    _check_shapes("sigmoid_cross_entropy", multi_class_labels, logits)
    labels = multi_class_labels.to(logits.dtype)
    if label_smoothing > 0:
        labels = labels * (1 - label_smoothing) + 0.5 * label_smoothing
    return compute_weighted_loss(sigmoid_cross_entropy_with_logits(labels, logits), weights, reduction)
