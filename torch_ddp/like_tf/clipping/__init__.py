"""Clipping as TensorFlow does it."""

from torch_ddp.like_tf.clipping.by_global_norm import clip_by_global_norm, clip_grads_by_global_norm_, global_norm
from torch_ddp.like_tf.clipping.by_norm import clip_by_norm
from torch_ddp.like_tf.clipping.by_value import clip_by_value

__all__ = [
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "clip_grads_by_global_norm_",
    "global_norm",
]
