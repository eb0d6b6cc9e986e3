"""Normalisation as TensorFlow does it."""

from torch_ddp.like_tf.normalization.batch_norm import BatchNorm1d, BatchNorm2d
from torch_ddp.like_tf.normalization.l2_normalize import l2_normalize
from torch_ddp.like_tf.normalization.layer_norm import layer_norm
from torch_ddp.like_tf.normalization.lrn import local_response_normalization

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "l2_normalize",
    "layer_norm",
    "local_response_normalization",
]
