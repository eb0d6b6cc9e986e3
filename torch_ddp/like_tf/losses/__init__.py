"""Cross entropies, and the losses of tf.losses and tf.nn."""

from torch_ddp.like_tf.losses.cross_entropy import (
    l2_loss,
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits,
    weighted_cross_entropy_with_logits,
)
from torch_ddp.like_tf.losses.ctc import ctc_loss
from torch_ddp.like_tf.losses.sampled import (
    SampledValues,
    log_uniform_candidate_sampler,
    nce_loss,
    sampled_softmax_loss,
)
from torch_ddp.like_tf.losses.weighted import (
    absolute_difference,
    compute_weighted_loss,
    cosine_distance,
    hinge_loss,
    huber_loss,
    log_loss,
    mean_squared_error,
    sigmoid_cross_entropy,
    softmax_cross_entropy,
    sparse_softmax_cross_entropy,
)

__all__ = [
    "SampledValues",
    "absolute_difference",
    "compute_weighted_loss",
    "cosine_distance",
    "ctc_loss",
    "hinge_loss",
    "huber_loss",
    "l2_loss",
    "log_loss",
    "log_uniform_candidate_sampler",
    "mean_squared_error",
    "nce_loss",
    "sampled_softmax_loss",
    "sigmoid_cross_entropy",
    "sigmoid_cross_entropy_with_logits",
    "softmax_cross_entropy",
    "softmax_cross_entropy_with_logits",
    "sparse_softmax_cross_entropy",
    "sparse_softmax_cross_entropy_with_logits",
    "weighted_cross_entropy_with_logits",
]
