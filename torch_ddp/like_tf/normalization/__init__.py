"""Batch norm with TensorFlow's statistics, and other norms."""

from torch_ddp.like_tf.normalization.batch_norm import BatchNorm1d, BatchNorm2d
from torch_ddp.like_tf.normalization.norms import l2_normalize, layer_norm, local_response_normalization

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "l2_normalize",
    "layer_norm",
    "local_response_normalization",
]
