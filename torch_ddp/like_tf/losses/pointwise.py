"""Losses of predictions against labels, element by element; TensorFlow computes them in float32."""

import torch
from torch import Tensor

from torch_ddp.like_tf.losses.reduction import SUM_BY_NONZERO_WEIGHTS, compute_weighted_loss


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

    Counterpart: tf.compat.v1.losses.absolute_difference.
    """
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

    Counterpart: tf.compat.v1.losses.mean_squared_error.
    """
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

    Counterpart: tf.compat.v1.losses.huber_loss.
    """
    losses = torch.nn.functional.huber_loss(predictions.float(), labels.float(), reduction="none", delta=delta)
    return compute_weighted_loss(losses, weights, reduction)


def log_loss(
    labels: Tensor,
    predictions: Tensor,
    weights: Tensor | float = 1.0,
    epsilon: float = 1e-7,
    reduction: str = SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Returns ``-labels * log(p + epsilon) - (1 - labels) * log(1 - p + epsilon)``, weighed and reduced.

    torch's binary_cross_entropy has no epsilon and stops each logarithm at -100.

    Args:
        labels: any shape.
        predictions: probabilities, the same shape.
        weights: see ``compute_weighted_loss``.
        epsilon: keeps the logarithms finite.
        reduction: see ``compute_weighted_loss``.

    Returns:
        float32, shape [] or that of labels.

    Counterpart: tf.compat.v1.losses.log_loss.
    """
    target, p = labels.float(), predictions.float()
    losses = -target * (p + epsilon).log() - (1 - target) * (1 - p + epsilon).log()
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

    Counterpart: tf.compat.v1.losses.hinge_loss.
    """
    return compute_weighted_loss((1 - (2 * labels.float() - 1) * logits.float()).relu(), weights, reduction)


def cosine_distance(
    labels: Tensor,
    predictions: Tensor,
    axis: int,
    weights: Tensor | float = 1.0,
    reduction: str = SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Returns ``1 - sum(predictions * labels)`` over one axis, weighed and reduced; nothing is normalised.

    Args:
        labels: unit vectors along the axis, any shape.
        predictions: unit vectors along the axis, the same shape.
        axis: the axis, which stays with length 1.
        weights: see ``compute_weighted_loss``.
        reduction: see ``compute_weighted_loss``.

    Returns:
        float32, shape [] or that of labels with the axis of length 1.

    Counterpart: tf.compat.v1.losses.cosine_distance.
    """
    losses = 1 - (predictions.float() * labels.float()).sum(axis, keepdim=True)
    return compute_weighted_loss(losses, weights, reduction)
