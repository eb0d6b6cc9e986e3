"""Cross entropies with tf.losses' weights, label smoothing and reduction."""

from torch import Tensor

from torch_ddp.like_tf.losses.cross_entropy import (
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits,
)
from torch_ddp.like_tf.losses.reduction import SUM_BY_NONZERO_WEIGHTS, compute_weighted_loss


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

    Counterpart: tf.compat.v1.losses.softmax_cross_entropy.
    """
    labels = onehot_labels.detach().to(logits.dtype)
    if label_smoothing > 0:
        labels = labels * (1 - label_smoothing) + label_smoothing / labels.shape[1]
    return compute_weighted_loss(softmax_cross_entropy_with_logits(labels, logits), weights, reduction)


def sparse_softmax_cross_entropy(
    labels: Tensor, logits: Tensor, weights: Tensor | float = 1.0, reduction: str = SUM_BY_NONZERO_WEIGHTS
) -> Tensor:
    """Returns the cross entropy against one class each, weighed and reduced.

    Args:
        labels: int64, shape [...].
        logits: shape [..., classes].
        weights: see ``compute_weighted_loss``; not weights of classes, which torch divides by.
        reduction: see ``compute_weighted_loss``.

    Returns:
        Shape [] or that of labels.

    Counterpart: tf.compat.v1.losses.sparse_softmax_cross_entropy.
    """
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

    Counterpart: tf.compat.v1.losses.sigmoid_cross_entropy.
    """
    labels = multi_class_labels.to(logits.dtype)
    if label_smoothing > 0:
        labels = labels * (1 - label_smoothing) + 0.5 * label_smoothing
    return compute_weighted_loss(sigmoid_cross_entropy_with_logits(labels, logits), weights, reduction)
