"""Batch norm with TensorFlow's statistics, and other norms."""

from torch_ddp.like_tf.normalization.batch_norm import BatchNorm1d, BatchNorm2d
from torch_ddp.like_tf.normalization.norms import (
    group_norm,
    instance_norm,
    l2_normalize,
    layer_norm,
    local_response_normalization,
)

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "group_norm",
    "instance_norm",
    "l2_normalize",
    "layer_norm",
    "local_response_normalization",
]
