"""Cross entropies per example, with TensorFlow's gradients."""

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_ddp.like_tf.errors import LikeTfError


def softmax_cross_entropy_with_logits(labels: Tensor, logits: Tensor) -> Tensor:
    """Returns the cross entropy of each example against a distribution over classes.

    The gradient with respect to the logits is ``softmax - labels`` even where the labels of an example do not sum to 1,
    which is not the derivative of the value. Source: tensorflow/core/kernels/xent_op.h and
    softmax_cross_entropy_with_logits_v2 in tensorflow/python/ops/nn_ops.py, 1.15.

    Args:
        labels: shape [..., classes], the dtype of the logits.
        logits: shape [..., classes].

    Returns:
        Shape [...].

    Counterpart: tf.compat.v1.nn.softmax_cross_entropy_with_logits_v2.
    """
    return cast(Tensor, _SoftmaxCrossEntropy.apply(labels, logits))  # type: ignore[no-untyped-call]


def sparse_softmax_cross_entropy_with_logits(labels: Tensor, logits: Tensor) -> Tensor:
    """Returns the cross entropy of each example against one class.

    A label outside the classes is an error; no label is ignored, torch's -100 neither.

    Args:
        labels: int64, shape [...].
        logits: shape [..., classes].

    Returns:
        Shape [...].

    Counterpart: tf.compat.v1.nn.sparse_softmax_cross_entropy_with_logits.
    """
    # No label is this one. By default torch ignores -100, and the example would count for nothing without a word.
    ignored = torch.iinfo(torch.int64).min
    flat = F.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), labels.reshape(-1).long(), ignore_index=ignored, reduction="none"
    )
    return flat.reshape(labels.shape)


def sigmoid_cross_entropy_with_logits(labels: Tensor, logits: Tensor) -> Tensor:
    """Returns the cross entropy of each element against a probability.

    Source: sigmoid_cross_entropy_with_logits in tensorflow/python/ops/nn_impl.py, 1.15.

    Args:
        labels: any shape, the dtype of the logits.
        logits: the same shape.

    Returns:
        The same shape.

    Counterpart: tf.compat.v1.nn.sigmoid_cross_entropy_with_logits.
    """
    # Both compute max(x, 0) - x * z + log(1 + exp(-|x|)), which no logit overflows.
    return F.binary_cross_entropy_with_logits(logits, labels, reduction="none")


def weighted_cross_entropy_with_logits(labels: Tensor, logits: Tensor, pos_weight: Tensor | float) -> Tensor:
    """Returns the cross entropy of each element with that of a label of 1 multiplied by ``pos_weight``.

    ``(1 - z) * x + (1 + (pos_weight - 1) * z) * (log(1 + exp(-|x|)) + max(-x, 0))``. Source:
    weighted_cross_entropy_with_logits in tensorflow/python/ops/nn_impl.py, 1.15.

    Args:
        labels: probabilities, TensorFlow's targets; any shape, the dtype of the logits.
        logits: the same shape.
        pos_weight: a number, or a tensor that broadcasts against the logits.

    Returns:
        The same shape.

    Raises:
        LikeTfError: labels and logits differ in shape.

    Counterpart: tf.compat.v1.nn.weighted_cross_entropy_with_logits.
    """
    if labels.shape != logits.shape:
        raise LikeTfError(
            f"weighted_cross_entropy_with_logits: expected labels of the shape of the logits, {tuple(logits.shape)}, "
            f"got {tuple(labels.shape)}. Reshape one of them."
        )
    scale = 1 + (pos_weight - 1) * labels
    return (1 - labels) * logits + scale * ((-logits.abs()).exp().log1p() + (-logits).relu())


def l2_loss(x: Tensor) -> Tensor:
    """Returns half the sum of squares, so that the gradient is ``x``.

    Args:
        x: any shape.

    Returns:
        Shape [].

    Counterpart: tf.compat.v1.nn.l2_loss.
    """
    return x.square().sum() / 2


class _SoftmaxCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, labels: Tensor, logits: Tensor) -> Tensor:
        ctx.save_for_backward(labels, logits)
        # By the largest, so that no exponential overflows: in float32 that of 89 would. labels, logits: [...,
        # classes].
        shifted = logits - logits.amax(-1, keepdim=True)
        return (labels * (shifted.exp().sum(-1, keepdim=True).log() - shifted)).sum(-1)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, Tensor | None]:
        labels, logits = ctx.saved_tensors
        # [..., 1]
        grad = grad_outputs[0].unsqueeze(-1)
        # The kernel hands on softmax - labels whatever the labels sum to. The derivative, which autograd would give,
        # is sum(labels) * softmax - labels: 3.0 of the gradient away in docs/semantics.md.
        to_labels = -grad * F.log_softmax(logits, -1) if ctx.needs_input_grad[0] else None
        to_logits = grad * (F.softmax(logits, -1) - labels) if ctx.needs_input_grad[1] else None
        return to_labels, to_logits
